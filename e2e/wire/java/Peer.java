import io.grpc.CallOptions;
import io.grpc.Grpc;
import io.grpc.HandlerRegistry;
import io.grpc.InsecureChannelCredentials;
import io.grpc.InsecureServerCredentials;
import io.grpc.ManagedChannel;
import io.grpc.MethodDescriptor;
import io.grpc.ServerMethodDefinition;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.ServerCalls;
import io.grpc.xds.XdsServerBuilder;
import io.grpc.xds.XdsServerCredentials;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;

/**
 * A client or a server of gRPC for Java that is configured by xDS: what ../python/peer.py is for gRPC's C core.
 */
final class Peer {
  static final class Text implements MethodDescriptor.Marshaller<String> {
    @Override
    public InputStream stream(String text) {
      return new ByteArrayInputStream(text.getBytes(StandardCharsets.UTF_8));
    }

    @Override
    public String parse(InputStream stream) {
      try {
        return new String(stream.readAllBytes(), StandardCharsets.UTF_8);
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
    }
  }

  static final MethodDescriptor<String, String> METHOD =
      MethodDescriptor.<String, String>newBuilder(new Text(), new Text())
          .setType(MethodDescriptor.MethodType.UNARY)
          .setFullMethodName("wire.Peer/Name")
          .build();

  static void call(String target, long pace) {
    ManagedChannel channel = Grpc.newChannelBuilder(target, InsecureChannelCredentials.create()).build();
    while (true) {
      String result;
      try {
        CallOptions options = CallOptions.DEFAULT.withDeadlineAfter(5, TimeUnit.SECONDS);
        result = "ok " + ClientCalls.blockingUnaryCall(channel, METHOD, options, "");
      } catch (StatusRuntimeException e) {
        result = "error " + e.getMessage().replace('\n', ' ');
      }
      System.out.printf("%d %s %s%n", System.currentTimeMillis(), target, result);
      try {
        Thread.sleep(pace);
      } catch (InterruptedException e) {
        return;
      }
    }
  }

  static void serve(int port, String name) throws IOException, InterruptedException {
    HandlerRegistry registry = new HandlerRegistry() {
      @Override
      public ServerMethodDefinition<?, ?> lookupMethod(String method, String authority) {
        return ServerMethodDefinition.create(METHOD, ServerCalls.asyncUnaryCall((request, answer) -> {
          answer.onNext(name);
          answer.onCompleted();
        }));
      }
    };
    XdsServerBuilder.forPort(port, XdsServerCredentials.create(InsecureServerCredentials.create()))
        .fallbackHandlerRegistry(registry)
        .build()
        .start()
        .awaitTermination();
  }

  public static void main(String[] args) throws Exception {
    if (args[0].equals("server")) {
      serve(Integer.parseInt(args[1]), args[2]);
      return;
    }
    for (int i = 2; i < args.length; i++) {
      String target = args[i];
      new Thread(() -> call(target, Long.parseLong(args[1]))).start();
    }
  }
}
