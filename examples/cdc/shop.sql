-- The database of `hayase demo --cdc`: what is captured, what the sink writes, and what triggers write down.

CREATE TABLE users (
    id text PRIMARY KEY,
    name text NOT NULL,
    street text NOT NULL,
    city text NOT NULL,
    region text NOT NULL,
    changed_at timestamptz NOT NULL
);

CREATE TABLE products (
    id text PRIMARY KEY,
    name text NOT NULL,
    price bigint NOT NULL, -- cents
    changed_at timestamptz NOT NULL
);

-- Written by the connector `shop-sales`.
CREATE TABLE sales (
    product text,
    region text,
    window_start timestamptz,
    orders bigint NOT NULL,
    quantity bigint NOT NULL,
    revenue bigint NOT NULL,
    PRIMARY KEY (product, region, window_start)
);

-- Every version of every user and product. It is not captured: the result is compared with it.
CREATE TABLE audit (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    table_name text NOT NULL,
    id text NOT NULL,
    at timestamptz NOT NULL,
    version jsonb NOT NULL
);
CREATE INDEX ON audit (table_name, id, at);

CREATE FUNCTION write_down() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO audit (table_name, id, at, version) VALUES (TG_TABLE_NAME, NEW.id, NEW.changed_at, to_jsonb(NEW));
    RETURN NULL;
END
$$;

CREATE TRIGGER write_down AFTER INSERT OR UPDATE ON users FOR EACH ROW EXECUTE FUNCTION write_down();
CREATE TRIGGER write_down AFTER INSERT OR UPDATE ON products FOR EACH ROW EXECUTE FUNCTION write_down();
