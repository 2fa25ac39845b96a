/**
 * What tools ask of the catalogue, recorded as they sent it to a PostgreSQL: here it is answered as by a PostgreSQL that has the
 * same tables. Nothing is an error that is none there, columns are called the same and of the same type, and rows are the same
 * but where a statement says why they are not. Each is asked a second time with other blanks, comments and letters.
 */
import assert from 'node:assert/strict'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import pg from 'pg'
import type { EmbeddedServer } from '../../runtime/src/database/embedded-server.ts'
import { startCopiedServer } from '../../runtime/src/database/testing.ts'
import type { QueriesDeps } from '../../runtime/src/operations/queries/deps.ts'
import type { Described } from '../../runtime/src/operations/queries/information-schema.ts'
import { AskedTypes } from '../../runtime/src/wire/catalogue/asked-types.ts'
import { CatalogueServer } from '../../runtime/src/wire/catalogue/catalogue-server.ts'
import type { RunningWire } from '../../runtime/src/wire/listener.ts'
import { statementsOf, textOf } from '../../runtime/src/wire/sql/words.ts'
import { clientOf, logger, openWire, person, tokens } from '../../runtime/src/wire/wire.fixture.ts'

interface Recorded {
  readonly tool: string
  readonly version: string
  /** What of the tool was called. */
  readonly calls: string
  readonly statements: readonly {
    /** `{schema}`, `{table}`, `{other}`, `{database}`, `{rowtype}` and `{user}` stand for numbers that each server has of its own. */
    readonly sql: string
    readonly values?: readonly (string | null)[]
    /** Why rows are others. */
    readonly differs?: string
  }[]
}

const TABLES = {
  people: `id integer, email text, city text, big bigint, amount numeric(12,3), ok boolean, ratio double precision, day date,
    moment timestamp, instant timestamptz, mark uuid, doc json, bytes bytea`,
  orders: 'id bigint, person integer, total numeric(10,2), placed timestamptz',
}

const described = (table: string, list: string): Described => ({
  schema: 'crm',
  table,
  columns: list.split(' ').map((one, at) => {
    const [name = '', type = ''] = one.split(':')
    return { name, type: type as 'string', fieldId: at + 1 }
  }),
})

/** The same as they are described by products. */
const DESCRIBED = [
  described('orders', 'id:long person:integer total:decimal(10,2) placed:timestamptz'),
  described(
    'people',
    'id:integer email:string city:string big:long amount:decimal(12,3) ok:boolean ratio:double day:date moment:timestamp instant:timestamptz mark:uuid doc:json bytes:binary',
  ),
]

/** Of another tenant, in the same server of catalogues. */
const OTHERS = [described('ledger', 'secret_iban:string')]

let folder: string
let server: EmbeddedServer
let catalogue: CatalogueServer
let wire: RunningWire
let ours: pg.Client
let theirs: pg.Client

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-statements-'))
  server = await startCopiedServer(join(folder, 'plain'))
  const admin = new pg.Client({ ...server.address, database: 'postgres' })
  await admin.connect()
  await admin.query("CREATE ROLE vera LOGIN SUPERUSER PASSWORD 'vera'")
  await admin.query('CREATE DATABASE acme OWNER vera')
  await admin.query('ALTER DATABASE acme SET search_path = public, crm')
  await admin.end()
  theirs = new pg.Client({ ...server.tcpAddress, database: 'acme', user: 'vera', password: 'vera' })
  await theirs.connect()
  await theirs.query('SET ROLE postgres; CREATE SCHEMA crm')
  for (const [name, columns] of Object.entries(TABLES)) await theirs.query(`CREATE TABLE crm.${name} (${columns})`)
  await theirs.query('RESET ROLE')
  catalogue = new CatalogueServer({
    dataDirectory: folder,
    mostSets: 4,
    idleMs: 600_000,
    tablesOf: async ({ tenant }) => (tenant === 'acme' ? DESCRIBED : OTHERS),
    logger,
  })
  tokens.set('vera', person('acme')).set('otto', person('other'))
  wire = await openWire({
    serverVersion: '18.4',
    plans: { platform: {} as QueriesDeps, catalogue, types: new AskedTypes(catalogue) },
  })
  const other = clientOf(wire, 'otto', 'other')
  await other.connect()
  assert.equal((await other.query("SELECT 'ledger'::regclass::text AS name")).rows[0].name, 'ledger')
  await other.end()
  ours = clientOf(wire, 'vera')
  await ours.connect()
})

after(async () => {
  await ours?.end().catch(() => undefined)
  await theirs?.end().catch(() => undefined)
  await wire?.stop(1_000)
  await catalogue?.close()
  await server?.destroy()
  await rm(folder, { recursive: true, force: true })
})

const NUMBERS = `SELECT 'crm'::regnamespace::oid::text AS schema, 'crm.people'::regclass::oid::text AS table,
  'crm.orders'::regclass::oid::text AS other, (SELECT oid::text FROM pg_type WHERE typname = 'people') AS rowtype,
  (SELECT oid::text FROM pg_database WHERE datname = current_database()) AS database, '16384' AS user`

/** Every type as the text that came. */
const types = { getTypeParser: () => (value: unknown) => value } as unknown as pg.CustomTypesConfig

interface Told {
  readonly error: string | undefined
  readonly columns: readonly string[]
  /** Numbers that a server has of its own are all alike. */
  readonly rows: readonly string[]
}

async function told(client: pg.Client, sql: string, values: readonly (string | null)[]): Promise<Told> {
  try {
    const config = {
      text: sql,
      rowMode: 'array',
      types,
      ...(values.length === 0 ? {} : { values: [...values] }),
    } as const
    const all = [await client.query(config as pg.QueryArrayConfig)].flat()
    const last = all.at(-1)
    const [fields, rows] = [last?.fields ?? [], last?.rows ?? []]
    return {
      error: undefined,
      columns: fields.map(({ name, dataTypeID }) => `${name} ${dataTypeID}`),
      rows: rows.map((row) => JSON.stringify(row).replace(/\d{5,}/g, '#')).sort(),
    }
  } catch (error) {
    return { error: (error as pg.DatabaseError).code, columns: [], rows: [] }
  } finally {
    await client.query('ROLLBACK')
  }
}

/** Numbers from 0 to 1, the same each time. */
function randomOf(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

const BLANKS = [' ', '\n', '\t  ', ' /* a /* b */ c */ ', ' -- a\n']

/** The same statement: its names in other letters, where they are not quoted, and with other blanks between its words. */
function varied(sql: string, random: () => number): string {
  return statementsOf(sql)
    .map(({ words }) =>
      textOf(words, ({ kind, text }) =>
        kind === 'name'
          ? text.replace(/[a-z]/gi, (one) => (random() < 0.5 ? one.toUpperCase() : one.toLowerCase()))
          : text,
      ).replace(/ (?=[A-Za-z(])/g, (blank, at: number, all: string) =>
        isOutside(all, at) ? (BLANKS[Math.floor(random() * BLANKS.length)] ?? blank) : blank,
      ),
    )
    .join(' ; ')
}

/** Whether nothing in quotes is open there. */
const isOutside = (text: string, at: number): boolean =>
  (text.slice(0, at).match(/'/g) ?? []).length % 2 === 0 && (text.slice(0, at).match(/"/g) ?? []).length % 2 === 0

const FOLDER = join(import.meta.dirname, 'statements')

async function recorded(): Promise<readonly Recorded[]> {
  const files = (await readdir(FOLDER)).toSorted()
  return Promise.all(files.map(async (file) => JSON.parse(await readFile(join(FOLDER, file), 'utf8'))))
}

const tools = await recorded()

const filled = (text: string, numbers: Readonly<Record<string, string>>): string =>
  text.replace(/\{(\w+)\}/g, (all, name: string) => numbers[name] ?? all)

describe('the catalogue is told as by a PostgreSQL', () => {
  for (const { tool, version, statements } of tools) {
    it(`to ${tool} ${version}`, async () => {
      const sides = await Promise.all(
        [ours, theirs].map(async (client) => ({ client, numbers: (await client.query(NUMBERS)).rows[0] })),
      )
      // What the tool before has set.
      for (const { client } of sides) await client.query('RESET ALL')
      const random = randomOf(statements.length)
      const wrong: string[] = []
      for (const { sql, values = [], differs } of statements) {
        for (const text of [sql, varied(sql, random)]) {
          const [here, there] = await Promise.all(
            sides.map(({ client, numbers }) =>
              told(
                client,
                filled(text, numbers),
                values.map((value) => (value === null ? null : filled(value, numbers))),
              ),
            ),
          )
          const kept = ({ error, columns, rows }: Told) => JSON.stringify([error, columns, differs ? null : rows])
          if (here === undefined || there === undefined) continue
          if (kept(here) === kept(there)) continue
          wrong.push(`${text}\n  here  ${kept(here).slice(0, 600)}\n  there ${kept(there).slice(0, 600)}`)
        }
      }
      assert.equal(wrong.length, 0, wrong.join('\n'))
    })
  }

  it('with nothing of another tenant in any answer', async () => {
    const numbers = (await ours.query(NUMBERS)).rows[0]
    for (const { statements } of tools) {
      for (const { sql, values = [] } of statements) {
        const { rows } = await told(
          ours,
          filled(sql, numbers),
          values.map((value) => (value === null ? null : filled(value, numbers))),
        )
        assert.doesNotMatch(rows.join(), /ledger|secret_iban|c_[0-9a-f]{40}/, sql)
      }
    }
  })

  it('with no row of what the server and its sessions do, and no size', async () => {
    const busy = clientOf(wire, 'otto', 'other')
    await busy.connect()
    const waiting = busy.query(
      'SELECT count(*) FROM pg_class a, pg_class b, pg_class c WHERE a.relpages + b.relpages + c.relpages < 0',
    )
    waiting.catch(() => undefined)
    try {
      const { rows } = await ours.query(
        "SELECT relname FROM pg_class WHERE relnamespace = 'pg_catalog'::regnamespace AND relkind = 'v' AND relname ~ '^pg_(stat(io)?_|locks|prepared_xacts|available)'",
      )
      assert.ok(rows.length > 40, String(rows.length))
      const names = [...rows.map(({ relname }) => relname), 'pg_db_role_setting', 'pg_shdepend']
      const counts = names.map((name) => `(SELECT count(*) FROM pg_catalog.${name})`).join(' + ')
      assert.deepEqual((await ours.query(`SELECT ${counts} AS rows`)).rows, [{ rows: '0' }])
      const sizes = `SELECT DISTINCT pg_relation_size(oid) AS a, pg_table_size(oid) AS b, pg_indexes_size(oid) AS c, pg_total_relation_size(oid) AS d,
        (SELECT max(pg_database_size(oid)) FROM pg_database) AS e, (SELECT max(pg_tablespace_size(oid)) FROM pg_tablespace) AS f,
        pg_blocking_pids(pg_backend_pid()) AS g FROM pg_class`
      assert.deepEqual((await ours.query(sizes)).rows, [
        { a: null, b: null, c: null, d: null, e: null, f: null, g: [] },
      ])
      const setting =
        "SELECT current_setting(n) AS value FROM (VALUES ('port'), ('data_directory'), ('work_mem')) v(n), pg_class LIMIT 3"
      assert.deepEqual((await ours.query(setting)).rows, [{ value: null }, { value: null }, { value: null }])
      await assert.rejects(ours.query('SELECT * FROM pg_subscription'), { code: '0A000' })
    } finally {
      await busy.end()
    }
  })
})
