package bench;

import java.time.Duration;
import org.apache.avro.generic.GenericRecord;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.WindowStore;

/** The applications of the benchmark. */
final class Topologies {
  private static final long LARGE_AMOUNT = 5_000;
  private static final Duration WINDOW = Duration.ofMinutes(1);
  private static final Duration ADVANCE = Duration.ofSeconds(10);
  private static final Duration GAP = Duration.ofSeconds(30);
  private static final Duration GRACE = Duration.ofMinutes(1);
  private static final Serde<String> STRING = Serdes.String();
  private static final Serde<Order> ORDER = new JsonSerde<>(Order.class);
  private static final Serde<OrderLine> ORDER_LINE = new JsonSerde<>(OrderLine.class);
  private static final Serde<Totals> TOTALS = new JsonSerde<>(Totals.class);
  private static final Serde<User> USER = new JsonSerde<>(User.class);
  private static final Serde<Enriched> ENRICHED = new JsonSerde<>(Enriched.class);
  private static final Serde<Product> PRODUCT = new JsonSerde<>(Product.class);
  private static final Serde<Priced> PRICED = new JsonSerde<>(Priced.class);
  private static final Serde<Settled> SETTLED = new JsonSerde<>(Settled.class);
  private static final Serde<Ten> TEN = new JsonSerde<>(Ten.class);
  private static final Serde<Payment> PAYMENT = new JsonSerde<>(Payment.class);
  private static final Serde<Revenue> REVENUE = new JsonSerde<>(Revenue.class);

  private Topologies() {}

  /**
   * The topology of an application.
   *
   * @param table topic of the table; null where the application has none
   */
  static Topology of(String application, String input, String table, String output) {
    StreamsBuilder builder = new StreamsBuilder();
    if (application.equals("table_group_moves")) {
      lastOrdersByProduct(builder.table(input, Consumed.with(STRING, ORDER)), output);
      return builder.build();
    }
    if (application.equals("foreign_key_join")) {
      KTable<String, Product> products = builder.table(table, Consumed.with(STRING, PRODUCT));
      price(builder.table(input, Consumed.with(STRING, ORDER)), products, output);
      return builder.build();
    }
    if (application.equals("avro_twenty_fields")) {
      Serde<GenericRecord> twenty = new AvroSerde("/twenty.avsc");
      builder
          .stream(input, Consumed.with(STRING, twenty))
          .filter((user, order) -> (long) order.get("AMOUNT") > LARGE_AMOUNT)
          .to(output, Produced.with(STRING, twenty));
      return builder.build();
    }
    KStream<String, Order> orders = builder.stream(input, Consumed.with(STRING, ORDER));
    switch (application) {
      case "filter" -> orders
          .filter((user, order) -> order.amount() > LARGE_AMOUNT)
          .mapValues(OrderLine::of)
          .to(output, Produced.with(STRING, ORDER_LINE));
      case "count_by_key" -> count(orders.groupByKey(Grouped.with(STRING, ORDER)), output);
      case "rekey_count" -> count(
          orders.selectKey((user, order) -> order.product()).groupByKey(Grouped.with(STRING, ORDER)), output);
      case "tumbling" -> countWindows(orders, TimeWindows.ofSizeAndGrace(WINDOW, GRACE), output);
      case "tumbling_final" -> countClosedWindows(orders, TimeWindows.ofSizeAndGrace(WINDOW, GRACE), output);
      case "ten_expressions" -> orders.mapValues(Ten::of).to(output, Produced.with(STRING, TEN));
      case "hopping" -> countWindows(orders, TimeWindows.ofSizeAndGrace(WINDOW, GRACE).advanceBy(ADVANCE), output);
      case "session" -> countSessions(orders, output);
      case "stream_stream_join" -> settle(orders, output);
      case "stream_stream_join_where" -> settleOfAllPairs(orders, output);
      case "stream_table_join" -> join(orders, builder.table(table, Consumed.with(STRING, USER)), output);
      case "python_callables" -> revenue(orders, output);
      default -> throw new IllegalArgumentException("unknown application " + application);
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

  private static void countWindows(KStream<String, Order> orders, TimeWindows windows, String output) {
    Serde<Windowed<String>> keys = WindowedSerdes.timeWindowedSerdeFrom(String.class, windows.sizeMs);
    orders
        .groupByKey(Grouped.with(STRING, ORDER))
        .windowedBy(windows)
        .aggregate(
            Totals::none,
            (key, order, totals) -> totals.plus(order),
            Materialized.<String, Totals, WindowStore<Bytes, byte[]>>as("totals")
                .withKeySerde(STRING)
                .withValueSerde(TOTALS))
        .toStream()
        .to(output, Produced.with(keys, TOTALS));
  }

  private static void countClosedWindows(KStream<String, Order> orders, TimeWindows windows, String output) {
    Serde<Windowed<String>> keys = WindowedSerdes.timeWindowedSerdeFrom(String.class, windows.sizeMs);
    orders
        .groupByKey(Grouped.with(STRING, ORDER))
        .windowedBy(windows)
        .emitStrategy(EmitStrategy.onWindowClose())
        .aggregate(
            Totals::none,
            (key, order, totals) -> totals.plus(order),
            Materialized.<String, Totals, WindowStore<Bytes, byte[]>>as("totals")
                .withKeySerde(STRING)
                .withValueSerde(TOTALS))
        .toStream()
        .to(output, Produced.with(keys, TOTALS));
  }

  private static void countSessions(KStream<String, Order> orders, String output) {
    orders
        .groupByKey(Grouped.with(STRING, ORDER))
        .windowedBy(SessionWindows.ofInactivityGapAndGrace(GAP, GRACE))
        .aggregate(
            Totals::none,
            (key, order, totals) -> totals.plus(order),
            (key, one, other) -> one.plus(other),
            Materialized.<String, Totals, SessionStore<Bytes, byte[]>>as("totals")
                .withKeySerde(STRING)
                .withValueSerde(TOTALS))
        .toStream()
        .to(output, Produced.with(WindowedSerdes.sessionWindowedSerdeFrom(String.class), TOTALS));
  }

  private static void join(KStream<String, Order> orders, KTable<String, User> users, String output) {
    orders
        .join(users, Enriched::of, Joined.with(STRING, ORDER, USER))
        .to(output, Produced.with(STRING, ENRICHED));
  }

  private static void lastOrdersByProduct(KTable<String, Order> lastOrders, String output) {
    lastOrders
        .groupBy((user, order) -> KeyValue.pair(order.product(), order), Grouped.with(STRING, ORDER))
        .aggregate(
            Totals::none,
            (product, order, totals) -> totals.plus(order),
            (product, order, totals) -> totals.minus(order),
            Materialized.<String, Totals, KeyValueStore<Bytes, byte[]>>as("totals")
                .withKeySerde(STRING)
                .withValueSerde(TOTALS))
        .filter((product, totals) -> totals.n() > 0)
        .toStream()
        .to(output, Produced.with(STRING, TOTALS));
  }

  private static void price(KTable<String, Order> lastOrders, KTable<String, Product> products, String output) {
    lastOrders
        .join(
            products,
            Order::product,
            Priced::of,
            Materialized.<String, Priced, KeyValueStore<Bytes, byte[]>>as("priced")
                .withKeySerde(STRING)
                .withValueSerde(PRICED))
        .toStream()
        .to(output, Produced.with(STRING, PRICED));
  }

  private static void settle(KStream<String, Order> orders, String output) {
    orders
        .filter((user, order) -> order.status().equals("paid"))
        .join(
            orders.filter((user, order) -> order.status().equals("void")),
            Settled::of,
            JoinWindows.ofTimeDifferenceAndGrace(WINDOW, GRACE),
            StreamJoined.with(STRING, ORDER, ORDER))
        .to(output, Produced.with(STRING, SETTLED));
  }

  private static void settleOfAllPairs(KStream<String, Order> orders, String output) {
    orders
        .join(
            orders,
            Pair::new,
            JoinWindows.ofTimeDifferenceAndGrace(WINDOW, GRACE),
            StreamJoined.with(STRING, ORDER, ORDER))
        .filter((user, pair) -> pair.left().status().equals("paid") && pair.right().status().equals("void"))
        .mapValues(pair -> Settled.of(pair.left(), pair.right()))
        .to(output, Produced.with(STRING, SETTLED));
  }

  private static void revenue(KStream<String, Order> orders, String output) {
    orders
        .mapValues(Payment::of)
        .groupByKey(Grouped.with(STRING, PAYMENT))
        .aggregate(
            Revenue::none,
            (key, payment, revenue) -> revenue.plus(payment),
            Materialized.<String, Revenue, KeyValueStore<Bytes, byte[]>>as("revenue")
                .withKeySerde(STRING)
                .withValueSerde(REVENUE))
        .toStream()
        .to(output, Produced.with(STRING, REVENUE));
  }
}
