/** The source of the live demo: a PostgreSQL of its own that keeps a log for readers, with one table of made-up orders. */
import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { type EmbeddedServer, startEmbeddedServer } from '../../runtime/src/database/embedded-server.ts'

export const ROWS = 2000
/** Every transaction writes its number into this row, too: a reader who finds it there has all transactions up to it. */
export const MARKER = 1
/** Of the product and of the table, in the order in which rows are compared. */
export const COLUMNS = ['order_no', 'customer', 'email', 'status', 'amount', 'change_no', 'changed_at'] as const
/** Whose values a viewer is shown masked. */
export const PERSONAL: readonly string[] = ['customer', 'email']

export interface LiveSource {
  readonly server: EmbeddedServer
  /** Of the login that the runtime reads with, which owns the table. */
  readonly login: Readonly<Record<string, unknown>>
  connect(): Promise<pg.Client>
}

/**
 * What an input in mode `cdc` asks of its source, and nothing more: the level of the log, places for readers, a bound for what it
 * keeps for them; a login that may read it; a primary key.
 */
const SETTINGS = {
  wal_level: 'logical',
  max_wal_senders: '4',
  max_replication_slots: '4',
  max_slot_wal_keep_size: '1GB',
}

const SCHEMA = `
  CREATE TABLE orders (order_no integer PRIMARY KEY, customer text NOT NULL, email text NOT NULL, status text NOT NULL,
    amount numeric(10,2) NOT NULL, change_no bigint NOT NULL, changed_at timestamptz NOT NULL);
  INSERT INTO orders SELECT n, 'Customer ' || n, 'c' || n || '@example.com', 'open', (n % 500) + 0.5, 0, now()
    FROM generate_series(1, ${ROWS}) n;
`

export async function startLiveSource(folder: string): Promise<LiveSource> {
  const server = await startEmbeddedServer({ dataFolder: folder, durable: false, settings: SETTINGS })
  const { host, port, user, password, database } = server.tcpAddress
  const secret = randomBytes(12).toString('hex')
  const connect = async () => {
    const client = new pg.Client({ host, port, user, password, database })
    await client.connect()
    return client
  }
  const client = await connect()
  await client.query(SCHEMA)
  await client.query(`CREATE ROLE shop LOGIN REPLICATION PASSWORD ${client.escapeLiteral(secret)};
    GRANT CREATE ON DATABASE ${client.escapeIdentifier(database)} TO shop; ALTER TABLE orders OWNER TO shop`)
  await client.end()
  return { server, connect, login: { host, port, database, user: 'shop', password: secret, ssl_mode: 'disable' } }
}
