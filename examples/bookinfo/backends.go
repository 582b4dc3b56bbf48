package main

import "net/http"

// details is what the details service answers.
type details struct {
	Title     string `json:"title"`
	Author    string `json:"author"`
	Year      int    `json:"year"`
	Pages     int    `json:"pages"`
	Publisher string `json:"publisher"`
	Language  string `json:"language"`
}

func serveDetails(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, details{
		Title: "The Comedy of Errors", Author: "William Shakespeare", Year: 1595, Pages: 200,
		Publisher: "PublisherA", Language: "English",
	})
}

// ratings maps a reviewer to one to five stars.
type ratings map[string]int

func serveRatings(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, ratings{"Reviewer1": 5, "Reviewer2": 4})
}

// reviews is what the reviews service answers. Version says which of them it was.
type reviews struct {
	Version      string   `json:"version"`
	Reviews      []review `json:"reviews"`
	RatingsError *failure `json:"ratingsError,omitempty"` // v2 without its ratings
}

type review struct {
	Reviewer string `json:"reviewer"`
	Text     string `json:"text"`
	Stars    int    `json:"stars,omitempty"` // v2 only
}

// reviewer serves reviews; v2 adds the stars that ratings knows.
type reviewer struct {
	version string
	up      *upstream
}

func (s reviewer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := reviews{Version: s.version, Reviews: []review{
		{Reviewer: "Reviewer1", Text: "Two pairs of twins, one day, and nobody thinks of asking. I laughed all the way home."},
		{Reviewer: "Reviewer2", Text: "Short, loud and well built, though nobody in it learns anything."},
	}}
	if s.version == "v2" {
		s.addStars(r, &answer)
	}
	writeJSON(w, http.StatusOK, answer)
}

func (s reviewer) addStars(r *http.Request, answer *reviews) {
	var stars ratings
	answer.RatingsError = s.up.fetch(r, "ratings", "/ratings/0", &stars)
	for i := range answer.Reviews {
		answer.Reviews[i].Stars = stars[answer.Reviews[i].Reviewer]
	}
}
