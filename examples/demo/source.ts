/**
 * The demo's source: a PostgreSQL of its own with airports, flights and stocks from the vega-datasets package
 * (BSD-3-Clause), and a table of people that is generated.
 */
import { readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { type EmbeddedServer, startEmbeddedServer } from '../../runtime/src/database/embedded-server.ts'

/** The package exports its code only; its data lies beside the folder of that. */
const data = join(dirname(fileURLToPath(import.meta.resolve('vega-datasets'))), '..', 'data')

export interface DemoSource {
  readonly server: EmbeddedServer
  readonly client: pg.Client
  readonly password: string
  close(): Promise<void>
}

const SCHEMA = `
  CREATE TABLE airports (iata text PRIMARY KEY, name text, city text, state text, latitude double precision, longitude double precision);
  CREATE TABLE flights (flight_no integer PRIMARY KEY, departed_at timestamp NOT NULL, delay integer, distance integer, origin text, destination text);
  CREATE TABLE stocks (symbol text, day date, price numeric(12,2), PRIMARY KEY (symbol, day));
  CREATE TABLE people (person_no integer PRIMARY KEY, full_name text NOT NULL, email text NOT NULL, city text, state text, plan text NOT NULL, updated_at timestamptz NOT NULL);
`

/** Starts the server in `folder`, loads the data, and makes the login `reader`, which may only read. */
export async function startSource(folder: string, password: string): Promise<DemoSource> {
  const server = await startEmbeddedServer({ dataFolder: folder, durable: false })
  const { host, port, user, password: own } = server.tcpAddress
  const client = new pg.Client({ host, port, user, password: own, database: 'postgres' })
  await client.connect()
  await client.query(SCHEMA)
  await insert(client, 'airports', 6, await airports())
  await insert(client, 'flights', 6, await flights())
  await insert(client, 'stocks', 3, await stocks())
  await insert(client, 'people', 7, people(2000))
  await client.query(`CREATE ROLE reader LOGIN PASSWORD ${client.escapeLiteral(password)}`)
  await client.query('GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader; ANALYZE')
  return {
    server,
    client,
    password,
    async close() {
      await client.end()
      await server.stop()
    },
  }
}

type Cells = readonly (string | number | null)[]

async function insert(client: pg.Client, table: string, width: number, rows: readonly Cells[]): Promise<void> {
  const batch = Math.floor(60_000 / width)
  for (let start = 0; start < rows.length; start += batch) {
    const part = rows.slice(start, start + batch)
    const holders = part.map(
      (_, row) => `(${Array.from({ length: width }, (_, i) => `$${row * width + i + 1}`).join()})`,
    )
    await client.query(`INSERT INTO ${table} VALUES ${holders.join()} ON CONFLICT DO NOTHING`, part.flat())
  }
}

async function airports(): Promise<Cells[]> {
  const [, ...lines] = csvLines(await readFile(join(data, 'airports.csv'), 'utf8'))
  return lines.map(([iata, name, city, state, , latitude, longitude]) => [
    iata ?? null,
    name ?? null,
    city ?? null,
    state ?? null,
    Number(latitude),
    Number(longitude),
  ])
}

async function flights(): Promise<Cells[]> {
  type Flight = { date: string; delay: number; distance: number; origin: string; destination: string }
  const list = JSON.parse(await readFile(join(data, 'flights-20k.json'), 'utf8')) as Flight[]
  return list.map((flight, index) => [
    index + 1,
    flight.date,
    flight.delay,
    flight.distance,
    flight.origin,
    flight.destination,
  ])
}

async function stocks(): Promise<Cells[]> {
  const [, ...lines] = csvLines(await readFile(join(data, 'stocks.csv'), 'utf8'))
  return lines.map(([symbol, day, price]) => [symbol ?? null, day ?? null, price ?? null])
}

/** Generated, the same at every run: no real person is meant. */
function people(count: number): Cells[] {
  const first = ['Ada', 'Grace', 'Alan', 'Edsger', 'Barbara', 'Donald', 'Frances', 'John']
  const last = ['Byron', 'Hopper', 'Mathison', 'Wybe', 'Huberman', 'Ervin', 'Allen', 'Backus']
  const places = [
    ['Seattle', 'WA'],
    ['Portland', 'OR'],
    ['Austin', 'TX'],
    ['Boston', 'MA'],
    ['Chicago', 'IL'],
  ] as const
  const plans = ['free', 'plus', 'pro']
  return Array.from({ length: count }, (_, index) => {
    const name = `${first[index % 8]} ${last[Math.floor(index / 8) % 8]}`
    const [city, state] = places[index % 5] as readonly [string, string]
    const email = `${name.toLowerCase().replace(' ', '.')}.${index + 1}@example.com`
    return [index + 1, name, email, city, state, plans[index % 3] as string, '2026-01-01T00:00:00Z']
  })
}

function csvLines(text: string): string[][] {
  return text
    .trim()
    .split(/\r?\n/)
    .map((line) =>
      [...line.matchAll(/("(?:[^"]|"")*"|[^,]*)(?:,|$)/g)]
        .map((match) => (match[1] as string).replace(/^"|"$/g, '').replaceAll('""', '"'))
        .slice(0, -1),
    )
}
