package bench;

import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;

/** Runs one application until it gets SIGTERM. Arguments come as pairs of a name with two dashes and a value. */
public final class Main {
  private Main() {}

  public static void main(String[] arguments) throws InterruptedException {
    Map<String, String> options = new HashMap<>();
    for (int i = 0; i + 1 < arguments.length; i += 2) {
      options.put(arguments[i].substring(2), arguments[i + 1]);
    }
    KafkaStreams streams =
        new KafkaStreams(
            Topologies.of(
                options.get("application"), options.get("input"), options.get("table"), options.get("output")),
            properties(options));
    CountDownLatch failed = new CountDownLatch(1);
    streams.setUncaughtExceptionHandler(
        error -> {
          error.printStackTrace();
          failed.countDown();
          return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
    Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(30))));
    streams.start();
    failed.await();
    System.exit(1);
  }

  private static Properties properties(Map<String, String> options) {
    Properties properties = new Properties();
    properties.put(StreamsConfig.APPLICATION_ID_CONFIG, options.get("application-id"));
    properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, options.get("bootstrap"));
    properties.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, options.get("guarantee"));
    properties.put(StreamsConfig.STATE_DIR_CONFIG, options.get("state-dir"));
    properties.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
    properties.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, options.getOrDefault("commit-interval-ms", "1000"));
    // Results of closed windows are looked for with every record, not once a second: at the end of the input there is
    // no later record, and the last windows would never come out.
    properties.put(StreamsConfig.InternalConfig.EMIT_INTERVAL_MS_KSTREAMS_WINDOWED_AGGREGATION, 0L);
    properties.put(StreamsConfig.producerPrefix(ProducerConfig.COMPRESSION_TYPE_CONFIG), "lz4");
    properties.put(StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest");
    return properties;
  }
}
