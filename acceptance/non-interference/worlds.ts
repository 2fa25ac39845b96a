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
  - { name: at, type: timestamp, nullable: false }
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

export const SHOWN = ['id', 'city', 'n', 'at'] as const

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

export const CLASSES: Readonly<Record<HiddenColumn, keyof typeof MASKS>> = {
  email: 'pii.identifier',
  name: 'pii.name',
  phone: 'pii.phone',
  salary: 'pii.salary',
  born: 'pii.birth',
  note: 'pii.note',
}

/** In what the second world differs from the first; in nothing where it is empty. */
export interface Difference {
  /** SQL of the value that one row has in the first world and in the second. */
  readonly hidden: Readonly<Partial<Record<HiddenColumn, readonly [string, string]>>>
  /** Rows that the neighbour has more in the second world, whose others have other values, too. */
  readonly neighbourRows: number
}

export interface Reader {
  readonly name: string
  readonly client: Client
  readonly token: string
}

/** Of the product that is looked at. */
export interface Release {
  readonly quality: string
  /** Whether a column that was shown is hidden from now on. */
  readonly isRaised: boolean
}

/** A class to the viewer, or the raw table to the developer. */
export type Loan = { readonly class: string } | { readonly table: string }

export interface World {
  readonly url: string
  readonly slug: string
  /** What tells this world from the other: names of its tenants and databases. */
  readonly names: readonly string[]
  readonly readers: readonly Reader[]
  /** A statement of the source, the same in both worlds. */
  change(sql: string): Promise<void>
  /** Ends when products are made anew. */
  sync(): Promise<void>
  /** The verdict, when what it began has ended. */
  deploy(version: string, release: Release): Promise<string>
  /** As `deploy`, of the product that its author makes of the same source. */
  derive(version: string, files: Readonly<Record<string, string>>): Promise<string>
  /** Lends a clearance until what it returns is called. */
  lend(loan: Loan): Promise<() => Promise<void>>
  /** Text of all events of the first tenant until now, as a reader gets them. */
  events(reader: Client): Promise<string>
  close(): Promise<void>
}

const RARELY = { cron: '0 0 29 2 *', time_zone: 'UTC' }
const ROWS = 25
/** The last row, of which the lake can hold no birth. */
const NOT_CARRIED = ROWS
const HEAD = 'apiVersion: svc/v1\nkind: '

/** Pseudonyms differ between tenants, and with them the sizes of files: only worlds that differ in one have them. */
export const hasPseudonyms = ({ hidden }: Difference): boolean => 'email' in hidden

/** A column that the owner of the source approves by name shows what it does: only where worlds do not differ in that. */
const APPROVED = 'senior'
const approvedIn = ({ hidden }: Difference): readonly string[] => ('born' in hidden ? [] : [APPROVED])

function columnsOf(difference: Difference): string {
  const columns = hasPseudonyms(difference) ? COLUMNS : COLUMNS.replace(/.*name: email.*\n/, '')
  const approved = approvedIn(difference).map((name) => `  - { name: ${name}, type: boolean }\n`)
  return `${columns}${approved.join('')}`
}

const RAISED = '  - { name: city, type: string, classification: pii.name }\n'
const raised = (columns: string): string => columns.replace(/.*name: city.*\n/, RAISED)

const filesWith = (columns: string, approved: readonly string[], quality: string) => ({
  product: `${HEAD}Product\nname: people\nnamespace: crm\narchetype: source_aligned\n`,
  inputs: `${HEAD}Inputs\ninputs:\n  - { name: source, connection: db, table: public.people, mode: full }\n`,
  output: `${HEAD}Output\nformat: iceberg\nschema:\n${columns}write_mode: replace\n`,
  quality: `${HEAD}Quality\nchecks:\n${quality}`,
  serving: `${HEAD}Serving\nendpoints:\n  - { type: lookup, config: { index_columns: [id, city, n] } }\n  - { type: realtime, config: { key_template: "{id}", include_columns: [id, city, name] } }\n  - { type: timeseries, config: { time_column: at, continuous_aggregates: [{ interval: 1 day, columns: [n, salary] }] } }\n  - type: analytics\n`,
  compute: `${HEAD}Compute\nengine: auto\ntrigger: on_ingestion\n${approved.map((name) => `transform: SELECT *, born < DATE '1990-01-01' AS ${name} FROM source\n`).join('')}`,
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
  const { url } = deployment
  const admin = new Client(url, await deployment.token(['--role', 'admin']))
  const as = async (name: string, tenant: string, group: string, user: string): Promise<Reader> => {
    const token = await deployment.token(['--tenant', tenant, '--group', group, '--user', user])
    return { name, token, client: new Client(url, token) }
  }
  const tenants: { readonly client: Client; readonly source: pg.Client; readonly database: string }[] = []
  for (const tenant of [slug, neighbour]) {
    const database = `ni_${randomBytes(6).toString('hex')}`
    await onSource(deployment, deployment.source.database, (source) => source.query(`CREATE DATABASE ${database}`))
    const source = new pg.Client({ ...deployment.source, database })
    await source.connect()
    await source.query(TABLE)
    const made = await admin.post('/api/v1/tenants', { slug: tenant, display_name: 'World', tier: 'standard' })
    if (made.status !== 201) throw new Error(JSON.stringify(made.body))
    const { client } = await as('owner', tenant, 'svc-developers', 'dora')
    tenants.push({ client, source, database })
  }
  const [own, far] = tenants as [(typeof tenants)[number], (typeof tenants)[number]]
  for (const [column, values] of Object.entries(difference.hidden)) {
    const [value, kept] = [values[isSecond ? 1 : 0], column === 'born' ? `id <> ${NOT_CARRIED}` : 'true']
    const rows = [...DIFFERENT_ROWS, NOT_CARRIED].join(', ')
    await own.source.query(`UPDATE people SET ${column} = ${value} WHERE id IN (${rows}) AND ${kept}`)
  }
  if (isSecond && 'born' in difference.hidden) {
    await own.source.query(`UPDATE people SET born = '-infinity' WHERE id = ${NOT_CARRIED}`)
  }
  if (isSecond && difference.neighbourRows > 0) {
    await far.source.query(`UPDATE people SET city = 'elsewhere', email = name, name = note, salary = 1;
      INSERT INTO people (id, city) SELECT 1000 + i, 'more' FROM generate_series(1, ${difference.neighbourRows}) i`)
  }
  for (const { client, database } of tenants) {
    const { host, port, user, password } = deployment.source
    const config = JSON.stringify({ host, port, user, password, database, ssl_mode: 'prefer' })
    // Of a schedule it is told how its runs went; none begins by itself before the pair is done.
    const wanted = { name: 'db', connector_type: 'postgresql', config_encrypted: config, schedule: RARELY }
    const { status, body } = await client.post('/api/v1/connections', wanted)
    if (status !== 201) throw new Error(JSON.stringify(body))
    for (const name of ['people', 'derived']) {
      await client.post('/api/v1/products', { name, namespace: 'crm', archetype: 'source_aligned' })
    }
  }
  const developer = await as('developer', slug, 'svc-developers', 'dan')
  await developer.client.post('/api/v1/products', { name: 'planned', namespace: 'crm', archetype: 'aggregate' })
  const key = await developer.client.post('/api/v1/application-keys', {
    name: 'app',
    products: ['crm.people'],
    unmask: ['*'],
  })
  if (key.status !== 201) throw new Error(JSON.stringify(key.body))
  let marks = 0
  const world: World = {
    url,
    slug,
    names: [slug, neighbour, ...tenants.map(({ database }) => database)],
    readers: [
      await as('viewer', slug, 'svc-viewers', 'vito'),
      developer,
      { name: 'key', token: key.body.token, client: new Client(url, key.body.token) },
      // Of another tenant; where its own rows differ it is told so.
      ...(difference.neighbourRows > 0 ? [] : [await as('neighbour', neighbour, 'svc-developers', 'nora')]),
    ],
    async change(sql) {
      await own.source.query(sql)
    },
    async sync() {
      for (const { client } of tenants) await ended(client, await client.post('/api/v1/connections/db/sync'))
    },
    async deploy(version, { quality, isRaised }) {
      const columns = columnsOf(difference)
      const lower = approvedIn(difference)
      const files = filesWith(isRaised ? raised(columns) : columns, lower, quality)
      const verdicts = await Promise.all(
        tenants.map(({ client }) => deployed(client, 'crm.people', { version, dry_run: false, lower }, files)),
      )
      return verdicts.join(' ')
    },
    derive: (version, files) => deployed(own.client, 'crm.derived', { version, dry_run: false }, files),
    async lend(loan) {
      const [path, body] =
        'class' in loan
          ? ['/api/v1/products/crm.people/grants', { subject: { user: 'vito' }, may: 'unmask', classes: [loan.class] }]
          : ['/api/v1/connections/db/grants', { subject: { user: 'dan' }, table: loan.table }]
      const made = await own.client.post(path, body)
      if (made.status !== 201) throw new Error(JSON.stringify(made.body))
      await idle(own.client)
      return async () => {
        const { status } = await own.client.send(`${path}/${made.body.id}`, { method: 'DELETE' })
        if (status >= 300) throw new Error(`taking a grant back was answered with ${status}`)
        await idle(own.client)
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
  return world
}

const TABLE = `CREATE TABLE people (id integer PRIMARY KEY, city text, n integer, email text, name text, phone text,
    salary integer, born date, note text, at timestamp NOT NULL DEFAULT '2026-01-09');
  INSERT INTO people SELECT i, 'c' || i % 4, i % 5, 'e' || i || '@x.test', 'Name ' || i, '+41 44 000 ' || 1000 + i,
    i * 1000, '1980-01-01'::date + i, 'note ' || i, '2026-01-01'::timestamp + i * interval '1 hour' FROM generate_series(1, ${ROWS}) i;
  UPDATE people SET phone = '+41 44 000 7777' WHERE id IN (1, 5, ${NOT_CARRIED});
  UPDATE people SET born = 'infinity' WHERE id = ${NOT_CARRIED}`

/** Rows of the difference: one that the product has, and one that a check on a shown column puts aside. */
const DIFFERENT_ROWS = [1, 5] as const

async function deployed(
  client: Client,
  product: string,
  wanted: Readonly<Record<string, unknown>>,
  files: Readonly<Record<string, string>>,
): Promise<string> {
  const path = `/api/v1/products/${product}`
  const uploaded = await client.upload(`${path}/manifests`, files)
  if (uploaded.status !== 200) throw new Error(JSON.stringify(uploaded.body))
  const { body, status } = await client.post(`${path}/deploy`, wanted)
  if (body.run_id) await client.untilEnded(body.run_id)
  return `${status} ${body.code ?? ''}`
}

/** When nothing is left to be done. */
async function idle(client: Client): Promise<void> {
  for (const state of ['queued', 'running', 'queued']) {
    const { body } = await client.get(`/api/v1/ingestion?state=${state}`)
    for (const { id } of body.data) await client.untilEnded(id)
  }
}

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
