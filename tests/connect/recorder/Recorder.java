import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/** Carries out cases with the transforms, predicates and converters of Kafka Connect and Debezium: IN.json OUT.json. */
public class Recorder {
    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final JsonConverter JSON = new JsonConverter();

    public static void main(String[] arguments) throws Exception {
        JSON.configure(Map.of("schemas.enable", "true", "replace.null.with.default", "false"), false);
        ArrayNode answers = MAPPER.createArrayNode();
        for (JsonNode given : MAPPER.readTree(new File(arguments[0]))) {
            answers.add(answer(given));
        }
        MAPPER.writeValue(new File(arguments[1]), answers);
    }

    private static JsonNode answer(JsonNode given) throws Exception {
        Object made = Class.forName(given.get("class").asText()).getDeclaredConstructor().newInstance();
        Map<String, String> config = new HashMap<>();
        given.get("config").fields().forEachRemaining(entry -> config.put(entry.getKey(), entry.getValue().asText()));
        try {
            switch (given.get("kind").asText()) {
                case "transform":
                    return transformed((Transformation<?>) made, config, given);
                case "predicate":
                    return tested((Predicate<?>) made, config, given);
                case "write":
                    return written(made, config, given);
                default:
                    return read(made, config, given);
            }
        } catch (Exception error) {
            return MAPPER.createObjectNode().put("error", error.getClass().getSimpleName() + ": " + error.getMessage());
        }
    }

    @SuppressWarnings("unchecked")
    private static <R extends ConnectRecord<R>> JsonNode transformed(
            Transformation<?> given, Map<String, String> config, JsonNode input) throws Exception {
        Transformation<R> transform = (Transformation<R>) given;
        transform.configure(config);
        R record = transform.apply((R) record(input));
        return record == null ? MAPPER.createObjectNode().put("filtered", true) : described(record);
    }

    @SuppressWarnings("unchecked")
    private static <R extends ConnectRecord<R>> JsonNode tested(
            Predicate<?> given, Map<String, String> config, JsonNode input) throws Exception {
        Predicate<R> predicate = (Predicate<R>) given;
        predicate.configure(config);
        return MAPPER.createObjectNode().put("matches", predicate.test((R) record(input)));
    }

    private static JsonNode written(Object converter, Map<String, String> config, JsonNode input) throws Exception {
        SchemaAndValue data = data(input.get("data"));
        byte[] bytes;
        if (converter instanceof Converter) {
            ((Converter) converter).configure(config, false);
            bytes = ((Converter) converter).fromConnectData("topic", data.schema(), data.value());
        } else {
            ((HeaderConverter) converter).configure(config);
            bytes = ((HeaderConverter) converter).fromConnectHeader("topic", "header", data.schema(), data.value());
        }
        ObjectNode answer = MAPPER.createObjectNode();
        return bytes == null ? answer.putNull("bytes") : answer.put("bytes", Base64.getEncoder().encodeToString(bytes));
    }

    private static JsonNode read(Object converter, Map<String, String> config, JsonNode input) throws Exception {
        byte[] bytes = input.get("bytes").isNull() ? null : Base64.getDecoder().decode(input.get("bytes").asText());
        SchemaAndValue data;
        if (converter instanceof Converter) {
            ((Converter) converter).configure(config, false);
            data = ((Converter) converter).toConnectData("topic", bytes);
        } else {
            ((HeaderConverter) converter).configure(config);
            data = ((HeaderConverter) converter).toConnectHeader("topic", "header", bytes);
        }
        return MAPPER.createObjectNode().set("data", described(data == null ? SchemaAndValue.NULL : data));
    }

    private static SchemaAndValue data(JsonNode given) throws Exception {
        if (given == null || given.isNull()) {
            return SchemaAndValue.NULL;
        }
        return JSON.toConnectData("topic", MAPPER.writeValueAsBytes(given));
    }

    private static JsonNode described(SchemaAndValue data) throws Exception {
        byte[] bytes = JSON.fromConnectData("topic", data.schema(), data.value());
        return bytes == null ? MAPPER.nullNode() : MAPPER.readTree(new String(bytes, StandardCharsets.UTF_8));
    }

    private static ConnectRecord<?> record(JsonNode given) throws Exception {
        JsonNode record = given.get("record");
        SchemaAndValue key = data(record.get("key"));
        SchemaAndValue value = data(record.get("value"));
        ConnectHeaders headers = new ConnectHeaders();
        for (JsonNode header : record.get("headers")) {
            headers.add(header.get(0).asText(), data(header.get(1)));
        }
        Long timestamp = record.get("timestamp").isNull() ? null : record.get("timestamp").asLong();
        String topic = record.get("topic").asText();
        if (given.get("source").asBoolean()) {
            return new SourceRecord(Map.of(), Map.of(), topic, 3, key.schema(), key.value(), value.schema(),
                    value.value(), timestamp, headers);
        }
        return new SinkRecord(topic, 3, key.schema(), key.value(), value.schema(), value.value(), 42, timestamp,
                TimestampType.CREATE_TIME, headers);
    }

    private static JsonNode described(ConnectRecord<?> record) throws Exception {
        ObjectNode answer = MAPPER.createObjectNode();
        answer.put("topic", record.topic());
        answer.set("partition", MAPPER.valueToTree(record.kafkaPartition()));
        answer.set("timestamp", MAPPER.valueToTree(record.timestamp()));
        answer.set("key", described(new SchemaAndValue(record.keySchema(), record.key())));
        answer.set("value", described(new SchemaAndValue(record.valueSchema(), record.value())));
        ArrayNode headers = answer.putArray("headers");
        for (Header header : record.headers()) {
            JsonNode data = described(new SchemaAndValue(header.schema(), header.value()));
            headers.add(MAPPER.valueToTree(List.of(header.key(), data)));
        }
        return answer;
    }
}
