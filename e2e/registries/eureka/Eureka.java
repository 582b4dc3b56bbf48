import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.cloud.netflix.eureka.server.EnableEurekaServer;

/** A Eureka server of Spring Cloud. Its settings come from the command line. */
@EnableAutoConfiguration
@EnableEurekaServer
public class Eureka {
  public static void main(String[] args) {
    SpringApplication.run(Eureka.class, args);
  }
}
