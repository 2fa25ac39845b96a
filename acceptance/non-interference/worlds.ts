/**
 * A world is two tenants with a product each, in a deployment that others share: the one that is looked at, and its
 * neighbour. Worlds of a pair are told the same and done the same to; they differ in one value that readers of the first
 * tenant may not see, or in the neighbour's rows.
 */
import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { Client } from '../client.ts'
import type { Deployment } from '../deployment.ts'

/** Classes, and what the deployment makes of each: see `MASKS`. The column `note` is not there for readers at all. */
const COLUMNS = `  - { name: id, type: integer, role: identity, nullable: false }
  - { name: city, type: string }
  - { name: n, type: integer }
  - { name: email, type: string, classification: pii.identifier }
  - { name: name, type: string, classification: pii.name }
  - { name: phone, type: string, classification: pii.phone }
  - { name: salary, type: integer, classification: pii.salary }
  - { name: born, type: date, classification: pii.birth }
  - { name: note, type: string, classification: pii.note }
`

/** What the deployment is configured with. */
export const MASKS = {
  'pii.identifier': 'hash',
  'pii.name': 'redact',
  'pii.phone': 'partial',
  'pii.salary': 'null',
  'pii.birth': 'null',
  'pii.note': 'omit',
} as const

/** In the environment that a runtime is started with. */
export function useMasks(environment: NodeJS.ProcessEnv): void {
  for (const [name, mask] of Object.entries(MASKS)) {
    environment[`SLUICE_MASKING__STRATEGIES__${name.toUpperCase()}`] = mask
  }
}

export const SHOWN = ['id', 'city', 'n'] as const

/** Each hidden column with values that a pair may differ by: of other lengths, orders and kinds, and none at all. */
export const HIDDEN = {
  // Another value that no row has: which rows are equal is conceded.
  email: ["'z@x.test'", "'a-much-longer-address-that-nobody-else-has@elsewhere.example'"],
  name: ["'Zoe'", "'Aaron the Very Long Name of Somebody Else'", "''", "'Äö\"\\,;'"],
  // What `partial` shows is the end.
  phone: ["'+00 0000 7777'", "'+99 9999 7777'"],
  salary: ['1', '2147483647', '0', 'NULL'],
  born: ["'1900-01-01'", "'2024-12-31'", 'NULL'],
  note: ["'x'", "'a note of another length, much longer than it was before'", 'NULL'],
} as const

export type HiddenColumn = keyof typeof HIDDEN

/** In what the second world differs from the first; in nothing where it is empty. */
export interface Difference {
  /** SQL of the value that one row has in the first world and in the second. */
  readonly hidden: Readonly<Partial<Record<HiddenColumn, readonly [string, string]>>>
  /** Rows that the neighbour has more in the second world, whose others have other values, too. */
  readonly neighbourRows: number
}

export interface World {
  readonly slug: string
  /** What tells this world from the other: names of its tenants and databases. */
  readonly names: readonly string[]
  readonly readers: readonly { readonly name: string; readonly client: Client }[]
  /** A statement of the source, the same in both worlds. */
  change(sql: string): Promise<void>
  /** Ends when products are made anew. */
  sync(): Promise<void>
  deploy(version: string, quality: string): Promise<void>
  /** Text of all events of the first tenant until now, as a reader gets them. */
  events(reader: Client): Promise<string>
  close(): Promise<void>
}

const ROWS = 24
const HEAD = 'apiVersion: svc/v1\nkind: '

/** Pseudonyms differ between tenants, and with them the sizes of files: only worlds that differ in one have them. */
export const hasPseudonyms = ({ hidden }: Difference): boolean => 'email' in hidden

const columnsOf = (difference: Difference): string =>
  hasPseudonyms(difference) ? COLUMNS : COLUMNS.replace(/.*name: email.*\n/, '')

const filesWith = (columns: string, quality: string) => ({
  product: `${HEAD}Product\nname: people\nnamespace: crm\narchetype: source_aligned\n`,
  inputs: `${HEAD}Inputs\ninputs:\n  - { name: source, connection: db, table: public.people, mode: full }\n`,
  output: `${HEAD}Output\nformat: iceberg\nschema:\n${columns}write_mode: replace\n`,
  quality: `${HEAD}Quality\nchecks:\n${quality}`,
  serving: `${HEAD}Serving\nendpoints:\n  - { type: lookup, config: { index_columns: [id, city, n] } }\n  - { type: realtime, config: { key_template: "{id}", include_columns: [id, city, name] } }\n  - type: analytics\n`,
  compute: `${HEAD}Compute\nengine: auto\ntrigger: on_ingestion\n`,
})

/** @param isSecond of a pair; names of both worlds are as long as each other's */
export async function openWorld(
  deployment: Deployment,
  pair: string,
  isSecond: boolean,
  difference: Difference,
): Promise<World> {
  const [slug, neighbour] = ['own', 'far'].map((part) => `ni-${part}-${pair}-${isSecond ? 'b' : 'a'}`) as [
    string,
    string,
  ]
  const admin = new Client(deployment.url, await deployment.token(['--role', 'admin']))
  const as = async (tenant: string, group: string, user: string) =>
    new Client(deployment.url, await deployment.token(['--tenant', tenant, '--group', group, '--user', user]))
  const tenants: { readonly client: Client; readonly source: pg.Client; readonly database: string }[] = []
  for (const tenant of [slug, neighbour]) {
    const database = `ni_${randomBytes(6).toString('hex')}`
    await onSource(deployment, deployment.source.database, (source) => source.query(`CREATE DATABASE ${database}`))
    const source = new pg.Client({ ...deployment.source, database })
    await source.connect()
    await source.query(TABLE)
    const made = await admin.post('/api/v1/tenants', { slug: tenant, display_name: 'World', tier: 'standard' })
    if (made.status !== 201) throw new Error(JSON.stringify(made.body))
    tenants.push({ client: await as(tenant, 'svc-developers', 'dora'), source, database })
  }
  const [own, far] = tenants as [(typeof tenants)[number], (typeof tenants)[number]]
  for (const [column, values] of Object.entries(difference.hidden)) {
    await own.source.query(`UPDATE people SET ${column} = ${values[isSecond ? 1 : 0]} WHERE id = ${DIFFERENT_ROW}`)
  }
  if (isSecond && difference.neighbourRows > 0) {
    await far.source.query(`UPDATE people SET city = 'elsewhere', email = name, name = note, salary = 1;
      INSERT INTO people (id, city) SELECT 1000 + i, 'more' FROM generate_series(1, ${difference.neighbourRows}) i`)
  }
  let marks = 0
  const world: World = {
    slug,
    names: [slug, neighbour, ...tenants.map(({ database }) => database)],
    readers: [
      { name: 'viewer', client: await as(slug, 'svc-viewers', 'vito') },
      { name: 'developer', client: await as(slug, 'svc-developers', 'dan') },
      // Of another tenant; where its own rows differ it is told so.
      ...(difference.neighbourRows > 0
        ? []
        : [{ name: 'neighbour', client: await as(neighbour, 'svc-developers', 'nora') }]),
    ],
    async change(sql) {
      await own.source.query(sql)
    },
    async sync() {
      for (const { client } of tenants) await ended(client, await client.post('/api/v1/connections/db/sync'))
    },
    async deploy(version, quality) {
      for (const { client } of tenants) {
        const path = '/api/v1/products/crm.people'
        const uploaded = await client.upload(`${path}/manifests`, filesWith(columnsOf(difference), quality))
        if (uploaded.status !== 200) throw new Error(JSON.stringify(uploaded.body))
        const { body, status } = await client.post(`${path}/deploy`, { version, dry_run: false })
        if (status !== 201) throw new Error(JSON.stringify(body))
        if (body.run_id !== null) await client.untilEnded(body.run_id)
      }
    },
    async events(reader) {
      // The last of them is made for this.
      marks += 1
      const wanted = { name: `mark_${marks}`, namespace: 'marks', archetype: 'aggregate' }
      const { body } = await own.client.post('/api/v1/products', wanted)
      await own.client.send(`/api/v1/products/${body.id}`, { method: 'DELETE' })
      const heard = new AbortController()
      const { body: stream } = await reader.begin('/api/v1/events', { 'last-event-id': '0' }, heard.signal)
      let text = ''
      for await (const chunk of stream?.pipeThrough(new TextDecoderStream()) ?? []) {
        text += chunk
        if (text.includes(`"subject":"${body.id}"`) && text.endsWith('\n\n')) break
      }
      heard.abort()
      return text
    },
    async close() {
      for (const { source } of tenants) await source.end()
      for (const tenant of [slug, neighbour]) {
        await admin.send(`/api/v1/tenants/${tenant}?confirm=${tenant}`, { method: 'DELETE' })
      }
      for (const { database } of tenants) {
        await onSource(deployment, deployment.source.database, (client) =>
          client.query(`DROP DATABASE ${database} WITH (FORCE)`),
        )
      }
    },
  }
  for (const { client, database } of tenants) {
    const { host, port, user, password } = deployment.source
    const config = JSON.stringify({ host, port, user, password, database, ssl_mode: 'prefer' })
    await client.post('/api/v1/connections', { name: 'db', connector_type: 'postgresql', config_encrypted: config })
    await client.post('/api/v1/products', { name: 'people', namespace: 'crm', archetype: 'source_aligned' })
  }
  return world
}

const TABLE = `CREATE TABLE people (id integer PRIMARY KEY, city text, n integer, email text, name text, phone text,
    salary integer, born date, note text);
  INSERT INTO people SELECT i, 'c' || i % 4, i % 5, 'e' || i || '@x.test', 'Name ' || i, '+41 44 000 ' || 1000 + i,
    i * 1000, '1980-01-01'::date + i, 'note ' || i FROM generate_series(1, ${ROWS}) i;
  UPDATE people SET phone = '+41 44 000 7777' WHERE id = 1`

/** Of which every difference is in one of the first rows. */
export const DIFFERENT_ROW = 1

async function ended(
  client: Client,
  { status, body }: { readonly status: number; readonly body: { readonly id: string } },
) {
  if (status !== 202) throw new Error(JSON.stringify(body))
  await client.untilEnded(body.id)
}

async function onSource(deployment: Deployment, database: string, work: (client: pg.Client) => Promise<unknown>) {
  const client = new pg.Client({ ...deployment.source, database })
  await client.connect()
  await work(client).finally(() => client.end())
}
