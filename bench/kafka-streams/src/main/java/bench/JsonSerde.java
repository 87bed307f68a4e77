package bench;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import com.fasterxml.jackson.databind.ObjectWriter;
import com.fasterxml.jackson.databind.PropertyNamingStrategies;
import java.io.IOException;
import org.apache.kafka.common.errors.SerializationException;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serializer;

/** JSON for one Java type, by Jackson's typed binding. */
final class JsonSerde<T> implements Serde<T> {
  private static final ObjectMapper MAPPER =
      new ObjectMapper()
          .setPropertyNamingStrategy(PropertyNamingStrategies.SNAKE_CASE)
          .disable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES);

  private final ObjectReader reader;
  private final ObjectWriter writer;

  JsonSerde(Class<T> type) {
    this.reader = MAPPER.readerFor(type);
    this.writer = MAPPER.writerFor(type);
  }

  @Override
  public Serializer<T> serializer() {
    return (topic, value) -> {
      try {
        return value == null ? null : writer.writeValueAsBytes(value);
      } catch (JsonProcessingException error) {
        throw new SerializationException("not writable as JSON: " + value, error);
      }
    };
  }

  @Override
  public Deserializer<T> deserializer() {
    return (topic, bytes) -> {
      try {
        return bytes == null ? null : reader.<T>readValue(bytes);
      } catch (IOException error) {
        throw new SerializationException("no JSON of the expected type in " + topic, error);
      }
    };
  }
}
