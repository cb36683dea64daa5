package bench;

import com.google.common.util.concurrent.FutureCallback;
import com.google.common.util.concurrent.Futures;
import com.google.common.util.concurrent.MoreExecutors;
import com.google.protobuf.ByteString;
import com.google.pubsub.v1.PublishRequest;
import com.google.pubsub.v1.PublishResponse;
import com.google.pubsub.v1.PubsubMessage;
import io.grpc.CallOptions;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.MethodDescriptor;
import io.grpc.protobuf.ProtoUtils;
import io.grpc.stub.ClientCalls;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;

/**
 * Single publishes by Java's official gRPC stack, each with a deadline of its own.
 *
 * <p>Ends with status 1 when one failed.
 */
public final class Publish {
  private static final MethodDescriptor<PublishRequest, PublishResponse> METHOD =
      MethodDescriptor.<PublishRequest, PublishResponse>newBuilder()
          .setType(MethodDescriptor.MethodType.UNARY)
          .setFullMethodName("google.pubsub.v1.Publisher/Publish")
          .setRequestMarshaller(ProtoUtils.marshaller(PublishRequest.getDefaultInstance()))
          .setResponseMarshaller(ProtoUtils.marshaller(PublishResponse.getDefaultInstance()))
          .build();

  private Publish() {}

  /** Arguments: endpoint, topic, count of requests, requests at a time, bytes of a message. */
  public static void main(String[] words) throws InterruptedException {
    ManagedChannel channel = ManagedChannelBuilder.forTarget(words[0]).usePlaintext().build();
    PublishRequest request =
        PublishRequest.newBuilder()
            .setTopic(words[1])
            .addMessages(
                PubsubMessage.newBuilder()
                    .setData(ByteString.copyFrom(new byte[Integer.parseInt(words[4])])))
            .build();
    AtomicReference<Throwable> failure = new AtomicReference<>();
    publish(channel, request, Integer.parseInt(words[2]), Integer.parseInt(words[3]), failure);
    channel.shutdownNow();
    if (failure.get() != null) {
      System.err.println(failure.get().getMessage());
      System.exit(1);
    }
  }

  private static void publish(
      ManagedChannel channel,
      PublishRequest request,
      int count,
      int inFlight,
      AtomicReference<Throwable> failure)
      throws InterruptedException {
    Semaphore turns = new Semaphore(inFlight);
    FutureCallback<PublishResponse> done =
        new FutureCallback<>() {
          @Override
          public void onSuccess(PublishResponse answer) {
            turns.release();
          }

          @Override
          public void onFailure(Throwable error) {
            failure.set(error);
            turns.release();
          }
        };
    for (int sent = 0; sent < count && failure.get() == null; sent++) {
      turns.acquire();
      CallOptions options = CallOptions.DEFAULT.withDeadlineAfter(1, TimeUnit.MINUTES);
      Futures.addCallback(
          ClientCalls.futureUnaryCall(channel.newCall(METHOD, options), request),
          done,
          MoreExecutors.directExecutor());
    }
    turns.acquire(inFlight);
  }
}
