-- The job of ecommerce.py in ksqlDB's SQL: sales per product and region in windows of 6 hours.
-- `hayase demo --sql` runs it on generated input; on your own topics: hayase sql run examples/ecommerce.sql

SET 'auto.offset.reset' = 'earliest';

CREATE STREAM orders (
    user_id STRING KEY, id BIGINT, product STRING, quantity BIGINT, amount BIGINT, card STRING, test BOOLEAN
) WITH (KAFKA_TOPIC = 'orders', VALUE_FORMAT = 'JSON', PARTITIONS = 2);

CREATE TABLE users (
    user_id STRING PRIMARY KEY, name STRING, street STRING, city STRING, region STRING
) WITH (KAFKA_TOPIC = 'users', VALUE_FORMAT = 'JSON', PARTITIONS = 2);

CREATE TABLE products (
    product_id STRING PRIMARY KEY, name STRING
) WITH (KAFKA_TOPIC = 'products', VALUE_FORMAT = 'JSON', PARTITIONS = 2);

-- Test orders go no further, and of a card only the last four digits do.
-- Each order gets the address that its user has at that time.
CREATE STREAM addressed WITH (KAFKA_TOPIC = 'addressed-orders') AS
    SELECT o.user_id AS user_id, o.id AS id, o.product AS product, o.quantity AS quantity, o.amount AS amount,
           CONCAT('**** ', SUBSTRING(o.card, -4)) AS card,
           u.street + ', ' + u.city AS address, u.region AS region
    FROM orders o JOIN users u ON o.user_id = u.user_id
    WHERE NOT o.test;

-- And the name of its product, if there is such a product.
CREATE STREAM enriched WITH (KAFKA_TOPIC = 'enriched-orders') AS
    SELECT a.product AS product_id, AS_VALUE(a.user_id) AS `user`, a.id AS `id`,
           COALESCE(p.name, '(unknown)') AS `product`, a.quantity AS `quantity`, a.amount AS `amount`,
           a.card AS `card`, a.address AS `address`, a.region AS `region`
    FROM addressed a LEFT JOIN products p ON a.product = p.product_id;

CREATE TABLE sales WITH (KAFKA_TOPIC = 'sales', KEY_FORMAT = 'JSON') AS
    SELECT `product`, `region`, COUNT(*) AS `orders`, SUM(`quantity`) AS `quantity`, SUM(`amount`) AS `revenue`
    FROM enriched WINDOW TUMBLING (SIZE 6 HOURS, RETENTION 30 DAYS, GRACE PERIOD 30 MINUTES)
    GROUP BY `product`, `region`;
