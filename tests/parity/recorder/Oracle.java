import java.io.*;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.time.*;
import java.util.*;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.*;
import org.apache.kafka.common.header.internals.*;
import org.apache.kafka.common.serialization.*;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.*;
import org.apache.kafka.streams.errors.*;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.kstream.Branched;
import org.apache.kafka.streams.processor.*;
import org.apache.kafka.streams.processor.api.*;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.state.*;
import org.apache.kafka.streams.test.TestRecord;

/** Runs cases of the golden format, one a line on stdin, and answers with what Kafka Streams did, one a line. */
@SuppressWarnings({"unchecked", "rawtypes"})
public final class Oracle {
    static final class Json implements Serde<Object> {
        public Serializer<Object> serializer() { return (t, v) -> v == null ? null : Expr.canonical(v).getBytes(StandardCharsets.UTF_8); }
        public Deserializer<Object> deserializer() { return (t, b) -> { try { return b == null ? null : Expr.MAPPER.readValue(b, Object.class); } catch (IOException e) { throw new org.apache.kafka.common.errors.SerializationException(e); } }; }
    }
    public static final class DefaultJson implements Serde<Object> {
        final Json j = new Json();
        public Serializer<Object> serializer() { return j.serializer(); }
        public Deserializer<Object> deserializer() { return j.deserializer(); }
    }
    static Serde serde(Object name) {
        if (name == null) return null;
        if (name instanceof Map m) {
            if (m.containsKey("time_windowed")) return new WindowedSerdes.TimeWindowedSerde(serde(m.get("time_windowed")), ((Number) m.get("size_ms")).longValue());
            return new WindowedSerdes.SessionWindowedSerde(serde(m.get("session_windowed")));
        }
        switch ((String) name) {
            case "string": return Serdes.String();
            case "long": return Serdes.Long();
            case "int": { Serde<Integer> i = Serdes.Integer(); return Serdes.serdeFrom((Serializer) (Serializer<Object>) (t, v) -> i.serializer().serialize(t, v == null ? null : (Integer) ((Long) v).intValue()), (Deserializer) (Deserializer<Object>) (t, b) -> { Integer r = i.deserializer().deserialize(t, b); return r == null ? null : (Object) r.longValue(); }); }
            case "double": { Serde<Double> i = Serdes.Double(); return Serdes.serdeFrom((Serializer) (Serializer<Object>) (t, v) -> i.serializer().serialize(t, v == null ? null : (Double) ((Number) v).doubleValue()), (Deserializer) i.deserializer()); }
            case "json": return new Json();
            default: throw new IllegalArgumentException("serde " + name);
        }
    }
    static Object plain(Object k) {
        if (k instanceof Windowed w) { Map<String, Object> m = new LinkedHashMap<>(); m.put("key", plain(w.key())); m.put("start", w.window().start()); m.put("end", w.window().end()); return m; }
        if (k instanceof Integer i) return i.longValue();
        return k;
    }
    static Map<String, Object> vars(Object... kv) { Map<String, Object> m = new HashMap<>(); for (int i = 0; i < kv.length; i += 2) m.put((String) kv[i], kv[i + 1]); return m; }
    static Object kv(Object e, Object k, Object v) { return Expr.eval(e, vars("key", plain(k), "value", v)); }
    static Duration ms(Object n) { return Duration.ofMillis(((Number) n).longValue()); }
    static final long MIN = Long.MIN_VALUE;

    public static final class Resume implements ProductionExceptionHandler {
        public Response handleError(ErrorHandlerContext c, ProducerRecord<byte[], byte[]> r, Exception e) { return Response.resume(); }
        public Response handleSerializationError(ErrorHandlerContext c, ProducerRecord r, Exception e, SerializationExceptionOrigin o) { return Response.resume(); }
        public void configure(Map<String, ?> c) { }
    }

    final Map<String, Object> c;
    final List<Object> effects = new ArrayList<>();
    final List<Map<String, Object>> outputs = new ArrayList<>();
    final StreamsBuilder builder = new StreamsBuilder();
    final Topology byHand = new Topology();
    boolean isByHand;
    final Map<String, Object> objects = new HashMap<>();
    final Map<String, Serde[]> sources = new HashMap<>(), sinks = new HashMap<>();
    Serde[] dynamic;
    TopologyTestDriver driver;
    int at = -1;

    Oracle(Map<String, Object> c) { this.c = c; }

    void effect(Map n, Object key, Object value) { Map<String, Object> r = new LinkedHashMap<>(); r.put("at", (long) at); r.put("node", n.get("id")); r.put("key", plain(key)); r.put("value", value); effects.add(r); }

    Materialized mat(Map a) {
        if (!a.containsKey("store")) {
            if (!a.containsKey("store_key") && !a.containsKey("store_value")) return null;
            Materialized m = Materialized.with(serde(a.get("store_key")), serde(a.get("store_value")));
            return m;
        }
        String s = (String) a.get("store");
        Materialized m = a.containsKey("history_ms") ? Materialized.as(org.apache.kafka.streams.state.Stores.persistentVersionedKeyValueStore(s, ms(a.get("history_ms")))) : Materialized.as(s);
        if (a.containsKey("store_key")) m = m.withKeySerde(serde(a.get("store_key")));
        if (a.containsKey("store_value")) m = m.withValueSerde(serde(a.get("store_value")));
        if (a.containsKey("retention_ms")) m = m.withRetention(ms(a.get("retention_ms")));
        return m;
    }

    static TimestampExtractor extractor(Map a) {
        switch ((String) a.get("type")) {
            case "field": return (r, p) -> {
                Object v = Expr.eval(Map.of("fn", "field", "path", a.get("path"), "args", List.of(vars("const", r.value()))), Map.of());
                if (v instanceof Long l) return l;
                switch ((String) a.get("otherwise")) { case "negative": return -1; case "record": return r.timestamp(); case "partition_time": return p; default: throw new Expr.UserError("no timestamp"); }
            };
            case "fail_on_invalid": return new FailOnInvalidTimestamp();
            case "log_and_skip": return new LogAndSkipOnInvalidTimestamp();
            case "use_partition_time": return new UsePartitionTimeOnInvalidTimestamp();
            default: throw new IllegalArgumentException("extractor " + a);
        }
    }
    Consumed consumed(Map a) {
        Consumed r = Consumed.with(serde(a.get("key")), serde(a.get("value")));
        if (a.get("timestamp_extractor") != null) r = r.withTimestampExtractor(extractor((Map) a.get("timestamp_extractor")));
        if (a.get("name") != null) r = r.withName((String) a.get("name"));
        return r;
    }
    StoreBuilder store(Map a) {
        String s = (String) a.get("store");
        Serde k = serde(a.get("key")), v = serde(a.get("value"));
        switch ((String) a.get("kind")) {
            case "key_value": return Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore(s), k, v);
            case "timestamped_key_value": return Stores.timestampedKeyValueStoreBuilder(Stores.persistentTimestampedKeyValueStore(s), k, v);
            case "window": return Stores.windowStoreBuilder(Stores.persistentWindowStore(s, ms(a.get("retention_ms")), ms(a.get("size_ms")), false), k, v);
            case "versioned": return Stores.versionedKeyValueStoreBuilder(Stores.persistentVersionedKeyValueStore(s, ms(a.get("history_ms"))), k, v);
            default: throw new IllegalArgumentException();
        }
    }

    /** Steps of processors. */
    final class Machine implements Expr.Stores {
        final Map node, args; ProcessingContext ctx; Object api; final Map<String, Cancellable> timers = new HashMap<>();
        java.util.function.Function<String, Object> stores;
        java.util.function.BiConsumer<Record, String> out;
        Machine(Map node, Map args) { this.node = node; this.args = args; }
        public Object get(String s, Object key) {
            Object st = stores.apply(s);
            if (st instanceof VersionedKeyValueStore v) return version(v.get(key));
            Object f = ((ReadOnlyKeyValueStore) st).get(key);
            return f instanceof ValueAndTimestamp t ? t.value() : f;
        }
        public Object version(String s, Object key, long t) { return version(((VersionedKeyValueStore) stores.apply(s)).get(key, t)); }
        Object version(Object o) { if (o instanceof VersionedRecord r) { Map<String, Object> m = new LinkedHashMap<>(); m.put("value", r.value()); m.put("timestamp", r.timestamp()); return m; } return o; }
        void init(ProcessingContext c) {
            ctx = c;
            for (Map t : (List<Map>) args.getOrDefault("schedule", List.of())) {
                PunctuationType type = t.get("type").equals("stream_time") ? PunctuationType.STREAM_TIME : PunctuationType.WALL_CLOCK_TIME;
                Punctuator p = time -> { Map<String, Object> v = vars("punctuate_time", time, "timestamp", time); times(v); run((List) t.get("steps"), v, null); };
                Cancellable made = t.get("start_ms") == null ? c.schedule(ms(t.get("interval_ms")), type, p) : ((ProcessingContext) c).schedule(Instant.ofEpochMilli(((Number) t.get("start_ms")).longValue()), ms(t.get("interval_ms")), type, p);
                timers.put((String) t.getOrDefault("name", ""), made);
            }
        }
        void times(Map<String, Object> v) { v.put("stream_time", ctx.currentStreamTimeMs()); v.put("wall_clock", ctx.currentSystemTimeMs()); v.put("__stores", this); }
        void record(Object key, Object value, long ts, Headers hs, Record r) {
            Map<String, Object> v = vars("key", plain(key), "value", value, "timestamp", ts);
            ctx.recordMetadata().ifPresent(m -> { v.put("topic", m.topic()); v.put("partition", (long) m.partition()); v.put("offset", m.offset()); });
            times(v);
            List<Object> l = new ArrayList<>();
            for (Header h : hs) l.add(Arrays.asList(h.key(), h.value() == null ? "" : new String(h.value(), StandardCharsets.UTF_8)));
            v.put("headers", l);
            run((List) args.get("on_record"), v, r);
        }
        void run(List<Map> steps, Map<String, Object> v, Record r) {
            for (Map s : steps) {
                switch ((String) s.get("do")) {
                    case "let": v.put((String) s.get("name"), Expr.eval(s.get("expr"), v)); break;
                    case "if": run((List) s.getOrDefault(Expr.truth(Expr.eval(s.get("cond"), v)) ? "then" : "else", List.of()), v, r); break;
                    case "log": effect(node, null, Expr.eval(s.get("expr"), v)); break;
                    case "cancel": timers.get(s.get("name")).cancel(); break;
                    case "forward": {
                        Record o = r != null ? r : new Record(null, null, (Long) v.get("punctuate_time"));
                        if (s.containsKey("key")) o = o.withKey(Expr.eval(s.get("key"), v));
                        if (s.containsKey("value")) o = o.withValue(Expr.eval(s.get("value"), v));
                        if (s.containsKey("timestamp")) o = o.withTimestamp(((Number) Expr.eval(s.get("timestamp"), v)).longValue());
                        if (s.containsKey("headers")) { Headers h = new RecordHeaders(o.headers()); for (List x : (List<List>) s.get("headers")) h.add((String) x.get(0), Expr.text(Expr.eval(x.get(1), v)).getBytes(StandardCharsets.UTF_8)); o = o.withHeaders(h); }
                        out.accept(o, (String) s.get("to")); break;
                    }
                    case "put": {
                        Object st = stores.apply((String) s.get("store")); Object k = Expr.eval(s.get("key"), v), val = Expr.eval(s.get("value"), v);
                        if (st instanceof WindowStore w) w.put(k, val, ((Number) Expr.eval(s.get("timestamp"), v)).longValue());
                        else if (st instanceof VersionedKeyValueStore w) v.put("put_result", w.put(k, val, ((Number) Expr.eval(s.get("timestamp"), v)).longValue()));
                        else ((KeyValueStore) st).put(k, val);
                        break;
                    }
                    case "put_if_absent": v.put("put_result", ((KeyValueStore) stores.apply((String) s.get("store"))).putIfAbsent(Expr.eval(s.get("key"), v), Expr.eval(s.get("value"), v))); break;
                    case "delete": {
                        Object st = stores.apply((String) s.get("store")); Object k = Expr.eval(s.get("key"), v);
                        v.put("deleted", st instanceof VersionedKeyValueStore w ? version(w.delete(k, ((Number) Expr.eval(s.get("timestamp"), v)).longValue())) : ((KeyValueStore) st).delete(k)); break;
                    }
                    case "for_each": {
                        Object st = stores.apply((String) s.get("store"));
                        List<Object[]> rows = new ArrayList<>();
                        Iterator it;
                        switch ((String) s.get("scan")) {
                            case "range": it = ((KeyValueStore) st).range(s.containsKey("from") ? Expr.eval(s.get("from"), v) : null, s.containsKey("to") ? Expr.eval(s.get("to"), v) : null); break;
                            case "fetch": it = ((WindowStore) st).fetch(Expr.eval(s.get("key"), v), ((Number) Expr.eval(s.get("from"), v)).longValue(), ((Number) Expr.eval(s.get("to"), v)).longValue()); break;
                            case "reverse_all": it = ((KeyValueStore) st).reverseAll(); break;
                            default: it = ((KeyValueStore) st).all();
                        }
                        while (it.hasNext()) { KeyValue x = (KeyValue) it.next(); rows.add(new Object[] {x.key, x.value}); }
                        try { ((Closeable) it).close(); } catch (IOException e) { throw new RuntimeException(e); }
                        for (Object[] x : rows) { v.put("it_key", plain(x[0])); v.put("it_value", x[1]); run((List) s.get("steps"), v, r); }
                        break;
                    }
                    default: throw new IllegalArgumentException("step " + s);
                }
            }
        }
    }
    ProcessorSupplier supplier(Map n, Map a) {
        return () -> new Processor<Object, Object, Object, Object>() {
            final Machine m = new Machine(n, a);
            public void init(ProcessorContext<Object, Object> c) { m.stores = c::getStateStore; m.out = (r, to) -> { if (to == null) c.forward(r); else c.forward(r, to); }; m.init(c); }
            public void process(Record<Object, Object> r) { m.record(r.key(), r.value(), r.timestamp(), r.headers(), r); }
        };
    }
    FixedKeyProcessorSupplier fixed(Map n, Map a) {
        return () -> new FixedKeyProcessor<Object, Object, Object>() {
            final Machine m = new Machine(n, a); FixedKeyRecord now; FixedKeyProcessorContext<Object, Object> ctx;
            public void init(FixedKeyProcessorContext<Object, Object> c) { ctx = c; m.stores = c::getStateStore; m.out = (r, to) -> { FixedKeyRecord f = now.withValue(r.value()).withTimestamp(r.timestamp()).withHeaders(r.headers()); if (to == null) c.forward(f); else c.forward(f, to); }; m.init(c); }
            public void process(FixedKeyRecord<Object, Object> r) { now = r; m.record(r.key(), r.value(), r.timestamp(), r.headers(), new Record(r.key(), r.value(), r.timestamp(), r.headers())); }
        };
    }

    Object op(Map n, List<Object> from) {
        String op = (String) n.get("op"); Map a = (Map) n.getOrDefault("args", Map.of());
        Object p = from.isEmpty() ? null : from.get(0), q = from.size() < 2 ? null : from.get(1);
        Named named = a.get("name") == null || op.equals("split") ? null : Named.as((String) a.get("name"));
        Materialized mat = mat(a);
        switch (op) {
            case "stream": return a.containsKey("pattern") ? builder.stream(Pattern.compile((String) a.get("pattern")), consumed(a)) : builder.stream((List<String>) a.get("topics"), consumed(a));
            case "table": return mat == null ? builder.table((String) a.get("topic"), consumed(a)) : builder.table((String) a.get("topic"), consumed(a), mat);
            case "global_table": return mat == null ? builder.globalTable((String) a.get("topic"), consumed(a)) : builder.globalTable((String) a.get("topic"), consumed(a), mat);
            case "state_store": builder.addStateStore(store(a)); return null;
            case "filter": case "filter_not": {
                Predicate f = (k, v) -> Expr.truth(kv(a.get("predicate"), k, v));
                if (p instanceof KStream s) return op.equals("filter") ? named == null ? s.filter(f) : s.filter(f, named) : named == null ? s.filterNot(f) : s.filterNot(f, named);
                KTable t = (KTable) p;
                if (op.equals("filter")) return mat == null ? t.filter(f) : t.filter(f, mat);
                return mat == null ? t.filterNot(f) : t.filterNot(f, mat);
            }
            case "map_values": {
                ValueMapperWithKey f = (k, v) -> kv(a.get("value"), k, v);
                if (p instanceof KStream s) return named == null ? s.mapValues(f) : s.mapValues(f, named);
                return mat == null ? ((KTable) p).mapValues(f) : ((KTable) p).mapValues(f, mat);
            }
            case "map": return ((KStream) p).map((k, v) -> KeyValue.pair(kv(a.get("key"), k, v), kv(a.get("value"), k, v)));
            case "select_key": return ((KStream) p).selectKey((k, v) -> kv(a.get("key"), k, v));
            case "flat_map": return ((KStream) p).flatMap((k, v) -> {
                List<KeyValue> r = new ArrayList<>(); Object items = kv(a.get("items"), k, v);
                for (Object i : items == null ? List.of() : (List<Object>) items) { Map x = vars("key", plain(k), "value", v, "it", i); r.add(KeyValue.pair(Expr.eval(a.get("key"), x), Expr.eval(a.get("value"), x))); }
                return r; });
            case "flat_map_values": return ((KStream) p).flatMapValues((k, v) -> { Object i = kv(a.get("items"), k, v); return i == null ? List.of() : (List) i; });
            case "peek": return ((KStream) p).peek((k, v) -> effect(n, k, v));
            case "foreach": ((KStream) p).foreach((k, v) -> effect(n, k, v)); return null;
            case "merge": return ((KStream) p).merge((KStream) q);
            case "split": {
                BranchedKStream b = ((KStream) p).split(Named.as((String) a.get("name")));
                for (Map x : (List<Map>) a.get("branches")) b = b.branch((k, v) -> Expr.truth(kv(x.get("predicate"), k, v)), Branched.as((String) x.get("name")));
                Map<String, KStream> r = a.get("default") == null ? b.noDefaultBranch() : b.defaultBranch(Branched.as((String) a.get("default")));
                Map<String, KStream> named2 = new HashMap<>();
                r.forEach((k, v) -> named2.put(k.substring(((String) a.get("name")).length()), v));
                return named2;
            }
            case "branch": return ((Map) p).get(a.get("branch"));
            case "repartition": {
                Repartitioned r = Repartitioned.with(serde(a.get("key")), serde(a.get("value")));
                if (a.get("name") != null) r = r.withName((String) a.get("name"));
                if (a.get("partitions") != null) r = r.withNumberOfPartitions(((Number) a.get("partitions")).intValue());
                return ((KStream) p).repartition(r);
            }
            case "to": {
                Produced r = Produced.with(serde(a.get("key")), serde(a.get("value")));
                if (a.get("name") != null) r = r.withName((String) a.get("name"));
                if (a.containsKey("topic_expr")) ((KStream) p).to((TopicNameExtractor) (k, v, rc) -> (String) Expr.eval(a.get("topic_expr"), vars("key", plain(k), "value", v, "topic", rc.topic(), "timestamp", rc.timestamp())), r);
                else ((KStream) p).to((String) a.get("topic"), r);
                return null;
            }
            case "to_table": return mat == null ? ((KStream) p).toTable() : ((KStream) p).toTable(mat);
            case "to_stream": return a.containsKey("key") ? ((KTable) p).toStream((k, v) -> kv(a.get("key"), k, v)) : ((KTable) p).toStream();
            case "group_by_key": return ((KStream) p).groupByKey(grouped(a));
            case "group_by":
                if (p instanceof KStream s) return s.groupBy((k, v) -> kv(a.get("key"), k, v), grouped(a));
                return ((KTable) p).groupBy((k, v) -> KeyValue.pair(kv(a.get("key"), k, v), kv(a.get("value"), k, v)), grouped(a));
            case "cogroup": {
                CogroupedKStream g = null; int i = 0;
                for (Object x : from) { Object e = ((List) a.get("aggregators")).get(i++); Aggregator f = (k, v, agg) -> Expr.eval(e, vars("key", plain(k), "value", v, "agg", agg)); g = g == null ? ((KGroupedStream) x).cogroup(f) : g.cogroup((KGroupedStream) x, f); }
                return g;
            }
            case "windowed_by": return windowed(a, p);
            case "suppress": {
                Map b = (Map) a.get("buffer");
                if (a.get("until").equals("window_closes")) {
                    Suppressed.StrictBufferConfig s = b.containsKey("max_records") ? Suppressed.BufferConfig.maxRecords(((Number) b.get("max_records")).longValue()).shutDownWhenFull() : Suppressed.BufferConfig.unbounded();
                    return ((KTable) p).suppress(Suppressed.untilWindowCloses(s));
                }
                Suppressed.BufferConfig e = Suppressed.BufferConfig.unbounded();
                if (b.containsKey("max_records")) { e = Suppressed.BufferConfig.maxRecords(((Number) b.get("max_records")).longValue()); if ("shutdown".equals(b.get("when_full"))) e = e.shutDownWhenFull(); }
                return ((KTable) p).suppress(Suppressed.untilTimeLimit(ms(a.get("limit_ms")), e));
            }
            case "transform_values": {
                ValueTransformerWithKeySupplier f = () -> new ValueTransformerWithKey<Object, Object, Object>() {
                    final Machine m = new Machine(n, vars("schedule", List.of()));
                    public void init(org.apache.kafka.streams.processor.ProcessorContext c) { m.stores = s -> c.getStateStore(s); }
                    public Object transform(Object k, Object v) { Map<String, Object> x = vars("key", plain(k), "value", v, "__stores", m); m.run((List) a.getOrDefault("steps", List.of()), x, null); return Expr.eval(a.get("value"), x); }
                    public void close() { }
                };
                String[] st = ((List<String>) a.getOrDefault("stores", List.of())).toArray(new String[0]);
                return mat == null ? ((KTable) p).transformValues(f, st) : ((KTable) p).transformValues(f, mat, st);
            }
            case "process": { String[] st = ((List<String>) a.getOrDefault("stores", List.of())).toArray(new String[0]); return named == null ? ((KStream) p).process(supplier(n, a), st) : ((KStream) p).process(supplier(n, a), named, st); }
            case "process_values": { String[] st = ((List<String>) a.getOrDefault("stores", List.of())).toArray(new String[0]); return named == null ? ((KStream) p).processValues(fixed(n, a), st) : ((KStream) p).processValues(fixed(n, a), named, st); }
            case "count": return count(p, mat);
            case "reduce": return reduce(a, p, mat);
            case "aggregate": return aggregate(a, p, mat);
            case "join": return join(a, p, q, mat, named);
            case "papi_source": isByHand = true; byHand.addSource((String) n.get("id"), serde(a.get("key")).deserializer(), serde(a.get("value")).deserializer(), ((List<String>) a.get("topics")).toArray(new String[0])); return n.get("id");
            case "papi_processor": byHand.addProcessor((String) n.get("id"), supplier(n, a), from.toArray(new String[0])); return n.get("id");
            case "papi_store": byHand.addStateStore(store(a), ((List<String>) a.get("processors")).toArray(new String[0])); return null;
            case "papi_sink": byHand.addSink((String) n.get("id"), (String) a.get("topic"), serde(a.get("key")).serializer(), serde(a.get("value")).serializer(), from.toArray(new String[0])); return null;
            default: throw new IllegalArgumentException("op " + op);
        }
    }
    Grouped grouped(Map a) { Grouped g = Grouped.with(serde(a.get("key_serde")), serde(a.get("value_serde"))); return a.get("name") == null ? g : g.withName((String) a.get("name")); }
    static long l(Map a, String k) { return a.get(k) == null ? 0 : ((Number) a.get(k)).longValue(); }
    Object windowed(Map a, Object p) {
        Duration grace = Duration.ofMillis(l(a, "grace_ms"));
        Object w;
        switch ((String) a.get("type")) {
            case "tumbling": w = TimeWindows.ofSizeAndGrace(ms(a.get("size_ms")), grace); break;
            case "hopping": w = TimeWindows.ofSizeAndGrace(ms(a.get("size_ms")), grace).advanceBy(ms(a.get("advance_ms"))); break;
            case "sliding": w = SlidingWindows.ofTimeDifferenceAndGrace(ms(a.get("difference_ms")), grace); break;
            case "session": w = SessionWindows.ofInactivityGapAndGrace(ms(a.get("gap_ms")), grace); break;
            default: w = UnlimitedWindows.of().startOn(Instant.ofEpochMilli(l(a, "start_ms")));
        }
        boolean emit = a.containsKey("emit");
        if (p instanceof KGroupedStream g) {
            if (w instanceof SlidingWindows s) { TimeWindowedKStream t = g.windowedBy(s); return emit ? t.emitStrategy(EmitStrategy.onWindowClose()) : t; }
            if (w instanceof SessionWindows s) { SessionWindowedKStream t = g.windowedBy(s); return emit ? t.emitStrategy(EmitStrategy.onWindowClose()) : t; }
            TimeWindowedKStream t = g.windowedBy((Windows) w); return emit ? t.emitStrategy(EmitStrategy.onWindowClose()) : t;
        }
        CogroupedKStream g = (CogroupedKStream) p;
        if (w instanceof SlidingWindows s) return g.windowedBy(s);
        if (w instanceof SessionWindows s) return g.windowedBy(s);
        return g.windowedBy((Windows) w);
    }
    Object count(Object p, Materialized m) {
        if (p instanceof KGroupedStream g) return m == null ? g.count() : g.count(m);
        if (p instanceof KGroupedTable g) return m == null ? g.count() : g.count(m);
        if (p instanceof TimeWindowedKStream g) return m == null ? g.count() : g.count(m);
        SessionWindowedKStream g = (SessionWindowedKStream) p; return m == null ? g.count() : g.count(m);
    }
    Reducer reducer(Object e) { return (agg, v) -> Expr.eval(e, vars("agg", agg, "value", v)); }
    Aggregator aggregator(Object e) { return (k, v, agg) -> Expr.eval(e, vars("key", plain(k), "value", v, "agg", agg)); }
    Object reduce(Map a, Object p, Materialized m) {
        if (p instanceof KGroupedTable g) return m == null ? g.reduce(reducer(a.get("adder")), reducer(a.get("subtractor"))) : g.reduce(reducer(a.get("adder")), reducer(a.get("subtractor")), m);
        Reducer r = reducer(a.get("reducer"));
        if (p instanceof KGroupedStream g) return m == null ? g.reduce(r) : g.reduce(r, m);
        if (p instanceof TimeWindowedKStream g) return m == null ? g.reduce(r) : g.reduce(r, m);
        SessionWindowedKStream g = (SessionWindowedKStream) p; return m == null ? g.reduce(r) : g.reduce(r, m);
    }
    Object aggregate(Map a, Object p, Materialized m) {
        Initializer i = () -> Expr.eval(a.get("initializer"), Map.of());
        if (p instanceof KGroupedTable g) return m == null ? g.aggregate(i, aggregator(a.get("adder")), aggregator(a.get("subtractor"))) : g.aggregate(i, aggregator(a.get("adder")), aggregator(a.get("subtractor")), m);
        Merger mg = (k, x, y) -> Expr.eval(a.get("merger"), vars("key", plain(k), "left", x, "right", y));
        if (p instanceof CogroupedKStream g) return m == null ? g.aggregate(i) : g.aggregate(i, m);
        if (p instanceof TimeWindowedCogroupedKStream g) return m == null ? g.aggregate(i) : g.aggregate(i, m);
        if (p instanceof SessionWindowedCogroupedKStream g) return m == null ? g.aggregate(i, mg) : g.aggregate(i, mg, m);
        Aggregator f = aggregator(a.get("aggregator"));
        if (p instanceof KGroupedStream g) return m == null ? g.aggregate(i, f) : g.aggregate(i, f, m);
        if (p instanceof TimeWindowedKStream g) return m == null ? g.aggregate(i, f) : g.aggregate(i, f, m);
        SessionWindowedKStream g = (SessionWindowedKStream) p; return m == null ? g.aggregate(i, f, mg) : g.aggregate(i, f, mg, m);
    }
    Object join(Map a, Object p, Object q, Materialized m, Named named) {
        String type = (String) a.get("type"); Object e = a.get("joiner");
        ValueJoinerWithKey jk = (k, x, y) -> Expr.eval(e, vars("key", plain(k), "left", x, "right", y));
        ValueJoiner j = (x, y) -> Expr.eval(e, vars("left", x, "right", y));
        if (p instanceof KStream s) {
            if (a.containsKey("windows")) {
                Map w = (Map) a.get("windows"); long before = l(w, "before_ms"), after = l(w, "after_ms");
                JoinWindows jw = JoinWindows.ofTimeDifferenceAndGrace(Duration.ofMillis(Math.max(before, after)), Duration.ofMillis(l(w, "grace_ms"))).before(Duration.ofMillis(before)).after(Duration.ofMillis(after));
                StreamJoined sj = StreamJoined.with(serde(a.get("key_serde")), serde(a.get("left_serde")), serde(a.get("right_serde")));
                if (a.get("name") != null) sj = sj.withName((String) a.get("name"));
                return type.equals("inner") ? s.join((KStream) q, jk, jw, sj) : type.equals("left") ? s.leftJoin((KStream) q, jk, jw, sj) : s.outerJoin((KStream) q, jk, jw, sj);
            }
            if (q instanceof GlobalKTable g) {
                KeyValueMapper f = (k, v) -> kv(a.get("global_key"), k, v);
                return type.equals("inner") ? s.join(g, f, jk) : s.leftJoin(g, f, jk);
            }
            Joined jd = Joined.with(serde(a.get("key_serde")), serde(a.get("left_serde")), serde(a.get("right_serde")));
            if (a.get("name") != null) jd = jd.withName((String) a.get("name"));
            if (a.containsKey("grace_ms")) jd = jd.withGracePeriod(ms(a.get("grace_ms")));
            return type.equals("inner") ? s.join((KTable) q, jk, jd) : s.leftJoin((KTable) q, jk, jd);
        }
        KTable x = (KTable) p, y = (KTable) q;
        if (a.containsKey("foreign_key")) {
            java.util.function.BiFunction f = (k, v) -> kv(a.get("foreign_key"), k, v);
            if (m == null) m = Materialized.with(null, null);
            return type.equals("inner") ? x.join(y, f, j, m) : x.leftJoin(y, f, j, m);
        }
        if (m == null) return type.equals("inner") ? x.join(y, j) : type.equals("left") ? x.leftJoin(y, j) : x.outerJoin(y, j);
        return type.equals("inner") ? x.join(y, j, m) : type.equals("left") ? x.leftJoin(y, j, m) : x.outerJoin(y, j, m);
    }

    Map<String, Object> run() {
        Map<String, Object> result = new LinkedHashMap<>();
        Map<String, Object> config = (Map) c.getOrDefault("config", Map.of());
        Properties props = new Properties();
        props.put("application.id", "app"); props.put("bootstrap.servers", "x:1");
        props.put("statestore.cache.max.bytes", 0);
        props.put("state.dir", System.getProperty("java.io.tmpdir") + "/oracle-state-" + ProcessHandle.current().pid() + "-" + System.nanoTime());
        props.put("default.key.serde", Serdes.StringSerde.class); props.put("default.value.serde", DefaultJson.class);
        props.put("__emit.interval.ms.kstreams.outer.join.spurious.results.fix__", 0L);
        props.put("__emit.interval.ms.kstreams.windowed.aggregation__", 0L);
        if (!"rocksdb".equals(config.getOrDefault("store_type", System.getProperty("stores", "rocksdb")))) props.put("dsl.store.suppliers.class", BuiltInDslStoreSuppliers.InMemoryDslStoreSuppliers.class);
        if (Boolean.TRUE.equals(config.get("optimize"))) props.put("topology.optimization", "all");
        if (config.containsKey("dsl_store_format")) props.put("dsl.store.format", config.get("dsl_store_format"));
        if (config.containsKey("deserialization_handler")) props.put("deserialization.exception.handler", LogAndContinueExceptionHandler.class);
        if (config.containsKey("processing_handler")) props.put("processing.exception.handler", LogAndContinueProcessingExceptionHandler.class);
        if (config.containsKey("production_handler")) props.put("production.exception.handler", Resume.class);
        if (config.containsKey("dlq_topic")) props.put("errors.dead.letter.queue.topic.name", config.get("dlq_topic"));
        List<Map> nodes = (List) c.get("topology"); List<Map> inputs = (List) c.get("inputs");
        Topology t;
        try {
            for (Map n : nodes) {
                List<Object> from = new ArrayList<>();
                for (Object id : (List) n.getOrDefault("from", List.of())) from.add(objects.get(id));
                objects.put((String) n.get("id"), op(n, from));
                Map a = (Map) n.getOrDefault("args", Map.of());
                switch ((String) n.get("op")) {
                    case "stream": case "table": case "global_table": case "papi_source": {
                        Collection<String> topics = a.containsKey("topics") ? (List<String>) a.get("topics") : a.containsKey("topic") ? List.of((String) a.get("topic")) : new TreeSet<>();
                        if (a.containsKey("pattern")) for (Map i : inputs) for (Map r : i.containsKey("batch") ? (List<Map>) i.get("batch") : List.of(i)) if (r.containsKey("topic") && ((String) r.get("topic")).matches((String) a.get("pattern"))) topics.add((String) r.get("topic"));
                        for (String s : topics) sources.put(s, new Serde[] {serde(a.get("key")), serde(a.get("value"))});
                        break;
                    }
                    case "to": case "papi_sink": { Serde[] s = {serde(a.get("key")), serde(a.get("value"))}; if (a.get("topic") == null) dynamic = s; else sinks.put((String) a.get("topic"), s); break; }
                    default:
                }
            }
            t = isByHand ? byHand : builder.build(props);
            result.put("describe", t.describe().toString());
            long clock = l(config, "initial_wall_clock_ms");
            driver = new TopologyTestDriver(t, props, Instant.ofEpochMilli(clock)); 
        } catch (Exception e) { if (System.getProperty("trace") != null) e.printStackTrace(); result.put("outputs", List.of()); result.put("error", error(e, -1)); return result; }
        Map<String, Object> failed = null;
        for (Map i : inputs) {
            at++;
            try {
                if (i.containsKey("advance_wall_clock_ms")) driver.advanceWallClockTime(ms(i.get("advance_wall_clock_ms")));
                else batch(i.containsKey("batch") ? (List<Map>) i.get("batch") : List.of(i));
            } catch (Exception e) { if (System.getProperty("trace") != null) e.printStackTrace(); failed = error(e, at); }
            drain();
            if (failed != null) break;
        }
        result.put("outputs", outputs);
        if (failed != null) result.put("error", failed);
        if (failed == null) { result.put("stores", stores(nodes)); 
            List<Object> qs = new ArrayList<>();
            for (Map qy : (List<Map>) c.getOrDefault("queries", List.of())) {
                Object st = driver.getAllStateStores().get((String) qy.get("store")); List qa = (List) qy.get("args"); Object f;
                if (st instanceof VersionedKeyValueStore v) { VersionedRecord r = qa.size() > 1 ? v.get(qa.get(0), ((Number) qa.get(1)).longValue()) : v.get(qa.get(0)); f = r == null ? null : vars("value", r.value(), "timestamp", r.timestamp()); }
                else { f = ((ReadOnlyKeyValueStore) st).get(qa.get(0)); if (f instanceof ValueAndTimestamp x) f = x.value(); }
                qs.add(f);
            }
            if (!qs.isEmpty()) result.put("queries", qs);
        }
        if (!effects.isEmpty()) result.put("side_effects", effects);
        double dropped = 0;
        for (Map.Entry<org.apache.kafka.common.MetricName, ? extends org.apache.kafka.common.Metric> m : driver.metrics().entrySet()) if (m.getKey().name().equals("dropped-records-total")) dropped += ((Number) m.getValue().metricValue()).doubleValue();
        result.put("dropped_records", (long) dropped);
        try { driver.close(); } catch (Exception e) { /* failed already */ }
        return result;
    }
    Map<String, Object> error(Throwable e, int at) {
        Throwable root = e; while (root.getCause() != null) root = root.getCause();
        Map<String, Object> m = new LinkedHashMap<>(); m.put("at", (long) at); m.put("class", e.getClass().getSimpleName()); m.put("root", root.getClass().getSimpleName()); m.put("root_message", String.valueOf(root.getMessage())); return m;
    }
    void batch(List<Map> records) throws Exception {
        Map<String, TopicPartition> parts; 
        for (Map r : records) {
            String topic = (String) r.get("topic"); Serde[] s = sources.get(topic);
            byte[] k = s[0].serializer().serialize(topic, r.get("key"));
            byte[] v = r.containsKey("value_hex") ? HexFormat.of().parseHex((String) r.get("value_hex")) : s[1].serializer().serialize(topic, r.get("value"));
            RecordHeaders h = new RecordHeaders();
            for (List x : (List<List>) r.getOrDefault("headers", List.of())) h.add((String) x.get(0), x.get(1) == null ? null : ((String) x.get(1)).getBytes(StandardCharsets.UTF_8));
            if (records.size() == 1) { Method m = TopologyTestDriver.class.getDeclaredMethod("pipeRecord", String.class, long.class, byte[].class, byte[].class, Headers.class); m.setAccessible(true); call(m, topic, l(r, "timestamp"), k, v, h); return; }
            Method in = TopologyTestDriver.class.getDeclaredMethod("getInputTopicOrPatternPartition", String.class); in.setAccessible(true);
            TopicPartition tp = (TopicPartition) call(in, topic);
            if (tp == null) { Method m = TopologyTestDriver.class.getDeclaredMethod("processGlobalRecord", TopicPartition.class, long.class, byte[].class, byte[].class, Headers.class); m.setAccessible(true); call(m, new TopicPartition(topic, 0), l(r, "timestamp"), k, v, h); continue; }
            Method m = TopologyTestDriver.class.getDeclaredMethod("enqueueTaskRecord", String.class, TopicPartition.class, long.class, byte[].class, byte[].class, Headers.class); m.setAccessible(true);
            call(m, topic, tp, l(r, "timestamp"), k, v, h);
        }
        Method m = TopologyTestDriver.class.getDeclaredMethod("completeAllProcessableWork"); m.setAccessible(true); call(m);
    }
    Object call(Method m, Object... args) throws Exception { try { return m.invoke(driver, args); } catch (java.lang.reflect.InvocationTargetException e) { if (e.getCause() instanceof Exception x) throw x; throw new RuntimeException(e.getCause()); } }
    void drain() {
        for (String topic : driver.producedTopicNames()) {
            TestOutputTopic<byte[], byte[]> o = driver.createOutputTopic(topic, new ByteArrayDeserializer(), new ByteArrayDeserializer());
            boolean internal = topic.endsWith("-repartition") || topic.endsWith("-topic") || topic.endsWith("-changelog");
            while (!o.isEmpty()) {
                TestRecord<byte[], byte[]> r = o.readRecord();
                if (internal) continue;
                Map<String, Object> m = new LinkedHashMap<>(); m.put("at", (long) at); m.put("topic", topic);
                Serde[] s = sinks.getOrDefault(topic, dynamic);
                if (s == null) { m.put("key_hex", r.key() == null ? null : HexFormat.of().formatHex(r.key())); m.put("value_hex", r.value() == null ? null : HexFormat.of().formatHex(r.value())); }
                else { m.put("key", plain(s[0].deserializer().deserialize(topic, r.key()))); m.put("value", s[1].deserializer().deserialize(topic, r.value())); }
                m.put("timestamp", r.timestamp());
                List<Object> hs = new ArrayList<>();
                for (Header h : r.headers()) hs.add(Arrays.asList(h.key(), h.value() == null ? null : h.key().equals("__streams.errors.stacktrace") ? "" : new String(h.value(), StandardCharsets.UTF_8)));
                if (!hs.isEmpty()) m.put("headers", hs);
                outputs.add(m);
            }
        }
    }
    Map<String, Object> stores(List<Map> nodes) {
        Map<String, Object> result = new TreeMap<>();
        for (Map n : nodes) {
            String s = (String) ((Map) n.getOrDefault("args", Map.of())).get("store");
            if (s == null) continue;
            Object st; try { st = driver.getAllStateStores().get(s); } catch (Exception e) { continue; }
            if (st == null) { continue; }
            List<Map<String, Object>> rows = new ArrayList<>(); String kind;
            KeyValueIterator it;
            if (st instanceof TimestampedKeyValueStore x) { kind = "timestamped_key_value"; it = x.all(); }
            else if (st instanceof TimestampedWindowStore x) { kind = "timestamped_window"; it = x.all(); }
            else if (st instanceof SessionStore x) { kind = "session"; it = null; }
            else if (st instanceof KeyValueStore x) { kind = "key_value"; it = x.all(); }
            else if (st instanceof WindowStore x) { kind = "window"; it = x.all(); }
            else continue;
            List<KeyValueIterator> all = new ArrayList<>();
            if (it != null) all.add(it);
            else for (Object key : sessionKeys()) all.add(((SessionStore) st).fetch(key));
            for (KeyValueIterator each : all) {
                while (each.hasNext()) {
                    KeyValue x = (KeyValue) each.next(); Map<String, Object> m = new LinkedHashMap<>(); m.put("key", plain(x.key));
                    if (x.value instanceof ValueAndTimestamp v) { m.put("value", v.value()); m.put("timestamp", v.timestamp()); } else m.put("value", x.value);
                    rows.add(m);
                }
                each.close();
            }
            rows.sort(Comparator.comparing(Expr::canonical));
            Map<String, Object> m = new LinkedHashMap<>(); m.put("kind", kind); m.put("entries", rows); result.put(s, m);
        }
        return result;
    }

    /** Keys that sessions may have: no session store gives all its rows. */
    Set<Object> sessionKeys() {
        Set<Object> keys = new LinkedHashSet<>();
        for (Map i : (List<Map>) (List) c.get("inputs")) for (Map r : i.containsKey("batch") ? (List<Map>) i.get("batch") : List.of(i)) if (r.get("key") instanceof String k) keys.add(k);
        for (Map<String, Object> o : outputs) { Object k = o.get("key"); if (k instanceof Map m) k = m.get("key"); if (k instanceof String) keys.add(k); }
        return keys;
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line; (line = in.readLine()) != null; ) {
            Map<String, Object> r;
            try { r = new Oracle(Expr.MAPPER.readValue(line, Map.class)).run(); } catch (Throwable e) { StringWriter w = new StringWriter(); e.printStackTrace(new PrintWriter(w)); r = Map.of("oracle_failed", w.toString()); }
            out.println(Expr.MAPPER.writeValueAsString(r));
        }
    }
}
