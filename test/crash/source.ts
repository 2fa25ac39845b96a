/** A source database whose content changes by a seed, and what products made from it must hold after each change. */
import pg from 'pg'
import type { EmbeddedServer } from '../../runtime/src/database/embedded-server.ts'
import { startCopiedServer } from '../../runtime/src/database/testing.ts'
import type { Seeded } from './seeded.ts'

export type Row = Readonly<Record<string, string>>
export type Content = ReadonlyMap<string, Row>

/** What one epoch of each product holds, by the text of its key. */
export interface Expected {
  readonly people: Content
  readonly visits: Content
  readonly reach: Content
}

const SCHEMA = `
  CREATE TABLE people (person_no integer PRIMARY KEY, full_name text NOT NULL, email text NOT NULL, city text NOT NULL, plan text NOT NULL);
  CREATE TABLE visits (visit_no integer PRIMARY KEY, seen_at timestamptz NOT NULL, pages integer NOT NULL, changed_at timestamptz NOT NULL);
  INSERT INTO people SELECT n, 'Person ' || n, 'p' || n || '@example.com', 'City ' || n % 4, (ARRAY['free','plus','pro'])[1 + n % 3] FROM generate_series(1, 30) n;
  INSERT INTO visits SELECT n, '2026-01-01T00:00Z'::timestamptz + n * interval '37 hours', n % 9, clock_timestamp() FROM generate_series(1, 60) n;
`

const READ_PEOPLE = 'SELECT person_no::text, full_name, email, city, plan FROM people'
const READ_VISITS = `SELECT visit_no::text, pages::text,
  to_char(seen_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS seen_at FROM visits`

const READ_REACH = 'SELECT person_no::text, city, pages::text FROM people JOIN visits ON visit_no = person_no'

const PLANS = ['free', 'plus', 'pro'] as const

export class CrashSource {
  readonly server: EmbeddedServer
  readonly password = 'only-for-this-source'
  readonly #client: pg.Client
  #step = 0

  private constructor(server: EmbeddedServer, client: pg.Client) {
    this.server = server
    this.#client = client
  }

  static async start(folder: string): Promise<CrashSource> {
    const server = await startCopiedServer(folder)
    const { host, port, user, password } = server.tcpAddress
    const client = new pg.Client({ host, port, user, password, database: 'postgres' })
    await client.connect()
    await client.query(SCHEMA)
    const source = new CrashSource(server, client)
    await client.query(`CREATE ROLE reader LOGIN PASSWORD ${client.escapeLiteral(source.password)}`)
    await client.query('GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader')
    return source
  }

  async stop(): Promise<void> {
    await this.#client.end()
    await this.server.stop()
  }

  /** One step of the script: every fifth changes nothing, the others insert, update and delete a few rows. */
  async change(random: Seeded): Promise<void> {
    this.#step += 1
    if (this.#step % 5 === 0) return
    await this.#client.query('BEGIN')
    for (let count = 1 + random.below(4); count > 0; count -= 1) await this.#changePeople(random)
    for (let count = 1 + random.below(4); count > 0; count -= 1) await this.#changeVisits(random)
    await this.#client.query('COMMIT')
  }

  /** What the epoch of a sync that begins now must hold. */
  async expected(): Promise<Expected> {
    const [people, visits] = [await this.#rows(READ_PEOPLE), await this.#rows(READ_VISITS)]
    const reach = await this.#rows(READ_REACH)
    return {
      people: new Map(people.map((row) => [row['person_no'] as string, row])),
      visits: new Map(visits.map((row) => [row['visit_no'] as string, row])),
      reach: new Map(reach.map((row) => [row['person_no'] as string, row])),
    }
  }

  async #rows(sql: string): Promise<readonly Row[]> {
    return (await this.#client.query<Row>(sql)).rows
  }

  async #changePeople(random: Seeded): Promise<void> {
    const number = 1 + random.below(40)
    const [kind, plan] = [random.below(4), random.pick(PLANS)]
    const city = `City ${random.below(9)}`
    if (kind === 0) await this.#client.query('DELETE FROM people WHERE person_no = $1', [number])
    else if (kind === 1) {
      await this.#client.query(
        `INSERT INTO people VALUES ($1, 'Person ' || $1::int, 'p' || $1::int || '@example.com', $2, $3) ON CONFLICT DO NOTHING`,
        [number, city, plan],
      )
    } else if (kind === 2) await this.#client.query('UPDATE people SET plan = $2 WHERE person_no = $1', [number, plan])
    else await this.#client.query('UPDATE people SET city = $2 WHERE person_no = $1', [number, city])
  }

  async #changeVisits(random: Seeded): Promise<void> {
    const number = 1 + random.below(120)
    if (random.below(5) === 0) {
      await this.#client.query('DELETE FROM visits WHERE visit_no = $1', [number])
      return
    }
    await this.#client.query(
      `INSERT INTO visits VALUES ($1::int, '2026-01-01T00:00Z'::timestamptz + $1::int * interval '37 hours', $2, clock_timestamp())
       ON CONFLICT (visit_no) DO UPDATE SET pages = excluded.pages, changed_at = excluded.changed_at`,
      [number, random.below(50)],
    )
  }
}
