package bench;

import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;

/** The scenarios of the benchmark. */
final class Topologies {
  private static final long LARGE_AMOUNT = 5_000;
  private static final Serde<String> STRING = Serdes.String();
  private static final Serde<Order> ORDER = new JsonSerde<>(Order.class);
  private static final Serde<OrderLine> ORDER_LINE = new JsonSerde<>(OrderLine.class);
  private static final Serde<Totals> TOTALS = new JsonSerde<>(Totals.class);

  private Topologies() {}

  static Topology of(String scenario, String input, String output) {
    StreamsBuilder builder = new StreamsBuilder();
    KStream<String, Order> orders = builder.stream(input, Consumed.with(STRING, ORDER));
    switch (scenario) {
      case "filter" -> orders
          .filter((user, order) -> order.amount() > LARGE_AMOUNT)
          .mapValues(OrderLine::of)
          .to(output, Produced.with(STRING, ORDER_LINE));
      case "count_by_key" -> count(orders.groupByKey(Grouped.with(STRING, ORDER)), output);
      case "rekey_count" -> count(
          orders.selectKey((user, order) -> order.product()).groupByKey(Grouped.with(STRING, ORDER)), output);
      default -> throw new IllegalArgumentException("unknown scenario " + scenario);
    }
    return builder.build();
  }

  private static void count(KGroupedStream<String, Order> orders, String output) {
    orders
        .aggregate(
            Totals::none,
            (key, order, totals) -> totals.plus(order),
            Materialized.<String, Totals, KeyValueStore<Bytes, byte[]>>as("totals")
                .withKeySerde(STRING)
                .withValueSerde(TOTALS))
        .toStream()
        .to(output, Produced.with(STRING, TOTALS));
  }
}
