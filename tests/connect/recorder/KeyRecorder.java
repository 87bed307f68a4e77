import java.lang.reflect.Field;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;

/** Writes the keys of Kafka Connect's worker and connectors, and of Debezium's PostgreSQL source: kind, key, default. */
public class KeyRecorder {
    public static void main(String[] arguments) throws Exception {
        Map<String, String> worker = Map.of(
            "group.id", "recorder", "bootstrap.servers", "localhost:1", "config.storage.topic", "configs",
            "offset.storage.topic", "offsets", "status.storage.topic", "states",
            "key.converter", "org.apache.kafka.connect.json.JsonConverter",
            "value.converter", "org.apache.kafka.connect.json.JsonConverter");
        Object config = new org.apache.kafka.connect.runtime.distributed.DistributedConfig(worker);
        Field definition = org.apache.kafka.common.config.AbstractConfig.class.getDeclaredField("definition");
        definition.setAccessible(true);
        write("worker", (ConfigDef) definition.get(config));
        write("source", org.apache.kafka.connect.runtime.SourceConnectorConfig.configDef());
        write("sink", org.apache.kafka.connect.runtime.SinkConnectorConfig.configDef());
        write("postgres", new io.debezium.connector.postgresql.PostgresConnector().config());
    }

    private static void write(String kind, ConfigDef definition) {
        for (ConfigDef.ConfigKey key : new TreeMap<>(definition.configKeys()).values()) {
            Object given = key.defaultValue;
            String text = given == ConfigDef.NO_DEFAULT_VALUE ? "required"
                : given == null ? "" : given instanceof Class<?> type ? type.getName() : given.toString();
            System.out.println(kind + "\t" + key.name + "\t" + text);
        }
    }
}
