-- The rows of the shop, in the words that PostgreSQL and DuckDB share.
CREATE SCHEMA shop;
CREATE TABLE shop.customers (id integer PRIMARY KEY, first_name text, last_name text, email text, country_code text, created_at timestamp);
INSERT INTO shop.customers SELECT i, 'First ' || i, CASE WHEN i % 7 = 0 THEN NULL ELSE 'Läst ' || i END, 'c' || i || '@shop.test',
  CASE i % 4 WHEN 0 THEN 'DE' WHEN 1 THEN 'FR' WHEN 2 THEN 'JP' ELSE 'XX' END, timestamp '2024-01-01 08:30:00' + i * interval '1 day'
  FROM generate_series(1, 60) AS s(i);
CREATE TABLE shop.orders (id integer PRIMARY KEY, user_id integer, order_date date, status text, "Note" text);
INSERT INTO shop.orders SELECT i, 1 + (i * 7) % 50, date '2024-03-01' + cast(i % 40 AS integer),
  CASE i % 5 WHEN 0 THEN 'placed' WHEN 1 THEN 'shipped' WHEN 2 THEN 'completed' WHEN 3 THEN 'return_pending' ELSE 'returned' END,
  CASE WHEN i % 11 = 0 THEN 'it''s "odd" -- not a comment' END FROM generate_series(1, 200) AS s(i);
CREATE TABLE shop.payments (id integer PRIMARY KEY, order_id integer, payment_method text, amount_cents bigint);
INSERT INTO shop.payments SELECT i, 1 + i % 190,
  CASE i % 4 WHEN 0 THEN 'credit_card' WHEN 1 THEN 'coupon' WHEN 2 THEN 'bank_transfer' ELSE 'gift_card' END, (i * 37) % 5000
  FROM generate_series(1, 300) AS s(i);
CREATE TABLE shop.order_lines (order_id integer, line_no integer, sku text, quantity integer, unit_price numeric(10,2), PRIMARY KEY (order_id, line_no));
INSERT INTO shop.order_lines SELECT 1 + (i - i % 3) / 3, 1 + i % 3, 'SKU-' || i % 17, 1 + i % 4, cast((i * 13) % 997 AS numeric(10,2)) / 10
  FROM generate_series(0, 599) AS s(i);
