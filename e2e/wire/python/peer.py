"""A client or a server of gRPC's C core that is configured by xDS.

peer.py client PACE_MS TARGET...   calls each target again and again, and prints a line for each call: the time in
                                   milliseconds, the target, and "ok" with the answer or "error" with gRPC's words
peer.py server PORT NAME           answers each call with NAME
"""

import concurrent.futures
import sys
import threading
import time

import grpc

METHOD = "/wire.Peer/Name"


def call(target, pace):
    with grpc.insecure_channel(target) as channel:
        name = channel.unary_unary(METHOD)
        while True:
            try:
                result = "ok " + name(b"", timeout=5).decode()
            except grpc.RpcError as e:
                result = f"error {e.code().name}: {e.details()}".replace("\n", " ")
            print(f"{time.time_ns() // 1_000_000} {target} {result}\n", end="", flush=True)
            time.sleep(pace / 1000)


def client(pace, *targets):
    threads = [threading.Thread(target=call, args=(t, int(pace)), daemon=True) for t in targets]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


class Name(grpc.GenericRpcHandler):
    def __init__(self, name):
        self.name = name.encode()

    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(lambda request, context: self.name)


def server(port, name):
    s = grpc.server(concurrent.futures.ThreadPoolExecutor(4), handlers=[Name(name)], xds=True)
    s.add_secure_port(f"0.0.0.0:{port}", grpc.xds_server_credentials(grpc.insecure_server_credentials()))
    s.start()
    s.wait_for_termination()


{"client": client, "server": server}[sys.argv[1]](*sys.argv[2:])
