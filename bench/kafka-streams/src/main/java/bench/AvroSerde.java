package bench;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import org.apache.avro.AvroRuntimeException;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.io.BinaryDecoder;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;
import org.apache.kafka.common.errors.SerializationException;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serializer;

/** Avro records of one schema, behind a zero byte and the schema's id; the registry is never asked. */
final class AvroSerde implements Serde<GenericRecord> {
  private static final int HEADER_BYTES = 5;
  private static final int SCHEMA_ID = 1;

  private final Schema schema;

  AvroSerde(String resource) {
    try (InputStream text = AvroSerde.class.getResourceAsStream(resource)) {
      this.schema = new Schema.Parser().parse(text);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  @Override
  public Serializer<GenericRecord> serializer() {
    GenericDatumWriter<GenericRecord> writer = new GenericDatumWriter<>(schema);
    byte[] header = ByteBuffer.allocate(HEADER_BYTES).put((byte) 0).putInt(SCHEMA_ID).array();
    return new Serializer<>() {
      @Override
      public byte[] serialize(String topic, GenericRecord record) {
        if (record == null) {
          return null;
        }
        try {
          ByteArrayOutputStream out = new ByteArrayOutputStream();
          out.write(header);
          BinaryEncoder encoder = EncoderFactory.get().directBinaryEncoder(out, null);
          writer.write(record, encoder);
          encoder.flush();
          return out.toByteArray();
        } catch (IOException | AvroRuntimeException error) {
          throw new SerializationException("not writable as Avro: " + record, error);
        }
      }
    };
  }

  @Override
  public Deserializer<GenericRecord> deserializer() {
    GenericDatumReader<GenericRecord> reader = new GenericDatumReader<>(schema);
    return new Deserializer<>() {
      @Override
      public GenericRecord deserialize(String topic, byte[] bytes) {
        if (bytes == null) {
          return null;
        }
        try {
          BinaryDecoder decoder =
              DecoderFactory.get().binaryDecoder(bytes, HEADER_BYTES, bytes.length - HEADER_BYTES, null);
          return reader.read(null, decoder);
        } catch (IOException | AvroRuntimeException error) {
          throw new SerializationException("no Avro of the expected schema in " + topic, error);
        }
      }
    };
  }
}
