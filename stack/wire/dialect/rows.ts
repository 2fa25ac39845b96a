/** The rows that both sides have: values on both sides of nought, of halves and of letters, the largest ones, and nulls. */

/** Name, type of a product, type of a PostgreSQL. */
export const COLUMNS = [
  ['id', 'integer', 'integer'],
  ['city', 'string', 'text'],
  ['small', 'integer', 'integer'],
  ['big', 'long', 'bigint'],
  ['amount', '"decimal(12,3)"', 'numeric(12,3)'],
  ['ratio', 'double', 'double precision'],
  ['real4', 'float', 'real'],
  ['ok', 'boolean', 'boolean'],
  ['day', 'date', 'date'],
  ['moment', 'timestamp', 'timestamp'],
  ['instant', 'timestamptz', 'timestamptz'],
  ['mark', 'uuid', 'uuid'],
  ['doc', 'json', 'json'],
  ['bytes', 'binary', 'bytea'],
] as const

/** Of which no expression is asked, as most would be out of range. */
export const LARGEST_ID = 5

export const ROWS_SQL = `
  (1, 'Portland', 7, 9007199254740993, 1.500, 2.5, 0.1, true, '2024-02-29', '2024-02-29 10:15:30.5', '2024-02-29 23:59:59.999999+00', '00000000-0000-0000-0000-000000000001', '{"a": 1, "b": ["x", "é"]}', '\\x6162'),
  (2, 'port louis', -7, -5, -2.345, -2.5, -1.25, false, '1999-12-31', '1999-12-31 23:59:59.999999', '1999-12-31 12:00:00+00', 'ffffffff-0000-0000-0000-000000000002', '{"a": -2, "b": []}', '\\x00'),
  (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
  (4, 'Åbo 😀', 0, 0, 0, 0, 0, true, '1970-01-01', '1970-01-01 00:00:00', '1970-01-01 00:00:00+00', '10000000-0000-0000-0000-000000000000', '{"a": 0}', '\\xff'),
  (5, '', 2147483647, 9223372036854775807, 999999999.999, 1e300, 1e30, false, '9999-12-31', '9999-12-31 23:59:59', '9999-12-31 23:59:59+00', 'a0000000-0000-0000-0000-000000000000', '{}', '\\x'),
  (6, 'Zürich_1%', 3, 3, 0.125, 0.5, 1.5, true, '2021-01-03', '2021-01-03 13:05:09.000001', '2021-01-03 01:02:03.456+00', '20000000-0000-0000-0000-000000000000', '{"a": 3, "b": ["y"]}', '\\x7f00'),
  (7, 'airport', -1, -1, -0.500, -0.5, -0.5, NULL, '2000-02-01', '2000-02-01 00:00:00', '2000-02-01 00:00:00+00', '30000000-0000-0000-0000-000000000000', '{"a": 7}', '\\x61'),
  (8, 'o''Neil', 12, 12, 12.345, 1.5, 2.5, false, '2023-12-25', '2023-12-25 12:00:00', '2023-12-25 12:00:00+00', '40000000-0000-0000-0000-000000000000', '{"a": 8}', '\\x20')`
