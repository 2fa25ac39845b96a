/** Two tenants, each with a table whose rows all say which version of it they are of, and who reads it. */
import assert from 'node:assert/strict'
import type pg from 'pg'
import { type Answer, Client, type Json } from '../../acceptance/client.ts'
import { connectionTo, type Fleet } from '../several/fleet.ts'

export const TENANTS = ['acme', 'beta'] as const
export const ROWS = 60
export const CITIES = 5
export const PRODUCT = 'people'
export const DOMAIN = 'crm'

/** Whom the classified columns are shown to. */
export interface Person {
  readonly tenant: string
  readonly name: string
  readonly seesClear: boolean
  readonly token: string
}

export interface Tenant {
  readonly slug: string
  readonly developer: Client
  readonly people: readonly Person[]
}

export interface SourceRow {
  readonly id: number
  readonly tenant: string
  readonly email: string
  readonly city: string
  readonly version: number
  readonly amount: number
}

export async function createSource(source: pg.Client): Promise<void> {
  for (const slug of TENANTS) {
    await source.query(
      `create table ${slug} (id integer primary key, tenant text, email text, city text, version integer, amount integer,
        at timestamptz)`,
    )
    await source.query(
      `insert into ${slug} select n, $1, $1 || '-' || n || '@example.com', 'city ' || n % ${CITIES}, 1, 1000 + n,
        timestamptz '2024-01-01 00:00Z' + n * interval '1 hour' from generate_series(1, ${ROWS}) n`,
      [slug],
    )
  }
}

/** All rows at once, so that no answer may mix two versions. */
export async function nextVersion(source: pg.Client, slug: string): Promise<void> {
  await source.query(`update ${slug} set version = version + 1, amount = (version + 1) * 1000 + id`)
}

export async function rowsOf(source: pg.Client, slug: string): Promise<readonly SourceRow[]> {
  return (await source.query(`select id, tenant, email, city, version, amount from ${slug} order by id`)).rows
}

/** Who may read; `clara` is granted what is classified. */
const PEOPLE = { dora: 'svc-developers', vito: 'svc-viewers', clara: 'svc-viewers' } as const
export type Name = keyof typeof PEOPLE
export const EVERYBODY = Object.keys(PEOPLE) as readonly Name[]

/** @param readers of each tenant; it has its developer in any case */
export async function onboard(fleet: Fleet, readers: readonly Name[]): Promise<readonly Tenant[]> {
  const token = (flags: readonly string[]) => fleet.token([...flags, '--ttl', '2h'])
  const admin = new Client(fleet.front.url, await token(['--role', 'admin']))
  const tenants: Tenant[] = []
  for (const slug of TENANTS) {
    done(await admin.post('/api/v1/tenants', { slug, display_name: slug, tier: 'standard' }), 201)
    const tokenOf = (name: Name) => token(['--tenant', slug, '--group', PEOPLE[name], '--user', name])
    const developer = new Client(fleet.front.url, await tokenOf('dora'))
    await deploy(developer, slug, fleet.source)
    const people: Person[] = []
    for (const name of readers) {
      people.push({ tenant: slug, name, seesClear: name === 'clara', token: await tokenOf(name) })
    }
    tenants.push({ slug, developer, people })
  }
  return tenants
}

async function deploy(developer: Client, slug: string, source: string): Promise<void> {
  done(await developer.post('/api/v1/connections', connectionTo(source)), 201)
  const wanted = { name: PRODUCT, namespace: DOMAIN, archetype: 'source_aligned', description: '' }
  const { id } = done(await developer.post('/api/v1/products', wanted), 201)
  done(await developer.upload(`/api/v1/products/${id}/manifests`, manifestsOf(slug)), 200)
  done(await developer.post(`/api/v1/products/${id}/deploy`, { version: '1.0.0', dry_run: false }), 201)
  const grant = { subject: { user: 'clara' }, may: 'unmask', classes: ['*'] }
  done(await developer.post(`/api/v1/products/${id}/grants`, grant), 201)
}

function done({ status, body }: Answer, wanted: number): Json {
  assert.equal(status, wanted, JSON.stringify(body))
  return body
}

function manifestsOf(table: string): Readonly<Record<string, string>> {
  const head = (kind: string) => `apiVersion: svc/v1\nkind: ${kind}\n`
  return {
    product: `${head('Product')}name: ${PRODUCT}\nnamespace: ${DOMAIN}\narchetype: source_aligned\n`,
    inputs: `${head('Inputs')}inputs:\n  - { name: source, connection: db, table: public.${table}, mode: full }\n`,
    output: `${head('Output')}format: iceberg
schema:
  - { name: id, type: integer, role: identity, nullable: false }
  - { name: tenant, type: string }
  - { name: email, type: string, classification: pii.identifier }
  - { name: city, type: string }
  - { name: version, type: integer }
  - { name: amount, type: integer }
  - { name: at, type: timestamptz, nullable: false }
write_mode: replace
`,
    quality: `${head('Quality')}checks:\n  - name: unique\n    unique: [id]\n`,
    serving: `${head('Serving')}endpoints:
  - type: lookup
    config: { index_columns: [id, city] }
  - type: timeseries
    config: { time_column: at, chunk_interval: 1 week }
  - type: realtime
    config: { key_template: 'person:{id}', ttl: 24h }
  - type: analytics
`,
    compute: `${head('Compute')}engine: auto\ntrigger: on_ingestion\n`,
  }
}
