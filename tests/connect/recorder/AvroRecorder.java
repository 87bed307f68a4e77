import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.apicurio.registry.serde.avro.NonRecordContainer;
import io.apicurio.registry.utils.converter.avro.AvroData;
import io.apicurio.registry.utils.converter.avro.AvroDataConfig;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.nio.ByteBuffer;
import java.util.Base64;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.json.JsonConverter;

/** What the Avro converter of Apicurio Registry writes of values, and reads of that again: IN.json OUT.json. */
public class AvroRecorder {
    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final JsonConverter JSON = new JsonConverter();

    public static void main(String[] arguments) throws Exception {
        JSON.configure(Map.of("schemas.enable", "true", "replace.null.with.default", "false"), false);
        ArrayNode answers = MAPPER.createArrayNode();
        for (JsonNode given : MAPPER.readTree(new File(arguments[0]))) {
            try {
                answers.add(answer(given));
            } catch (Exception error) {
                answers.add(MAPPER.createObjectNode().put("error", error.toString()));
            }
        }
        MAPPER.writeValue(new File(arguments[1]), answers);
    }

    private static JsonNode answer(JsonNode given) throws Exception {
        AvroData avro = new AvroData(new AvroDataConfig(Map.of("connect.meta.data", given.get("meta").asText())));
        SchemaAndValue data = JSON.toConnectData("topic", MAPPER.writeValueAsBytes(given.get("data")));
        Schema schema = avro.fromConnectSchema(data.schema());
        Object value = avro.fromConnectData(data.schema(), data.value());
        value = value instanceof NonRecordContainer ? ((NonRecordContainer) value).getValue() : value;
        byte[] bytes = value instanceof byte[] ? (byte[]) value : encoded(schema, value);
        ObjectNode answer = MAPPER.createObjectNode();
        answer.set("schema", MAPPER.readTree(schema.toString()));
        answer.put("bytes", Base64.getEncoder().encodeToString(bytes));
        Object read = value instanceof byte[] ? ByteBuffer.wrap(bytes)
                : new GenericDatumReader<>(schema).read(null, DecoderFactory.get().binaryDecoder(bytes, null));
        SchemaAndValue again = avro.toConnectData(schema, read);
        byte[] json = JSON.fromConnectData("topic", again.schema(), again.value());
        answer.set("read", json == null ? MAPPER.nullNode() : MAPPER.readTree(json));
        return answer;
    }

    private static byte[] encoded(Schema schema, Object value) throws Exception {
        ByteArrayOutputStream target = new ByteArrayOutputStream();
        BinaryEncoder encoder = EncoderFactory.get().directBinaryEncoder(target, null);
        new GenericDatumWriter<>(schema).write(value, encoder);
        encoder.flush();
        return target.toByteArray();
    }
}
