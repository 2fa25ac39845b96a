/** The same products on two deployments: whom to ask as, and what each calls its epochs. */
import assert from 'node:assert/strict'
import { type Answer, Client, type Json } from '../../acceptance/client.ts'
import { connectionTo } from '../several/fleet.ts'
import { TABLES } from './tables.ts'

export const DOMAIN = 'parity'
const TENANT = 'acme'

/** Neither of the first two may see what is classified; of the others each has a grant. */
export const READERS = ['developer', 'viewer', 'named', 'cleared'] as const
export type Reader = (typeof READERS)[number]

export const isMasked = (reader: Reader): boolean => reader === 'developer' || reader === 'viewer'

/** Of one epoch of a product. */
export interface Epoch {
  readonly epoch: number
  readonly snapshotId: string
  readonly committedAt: string
}

export class ParityDeployment {
  readonly name: string
  /** Whether statements are Trino's to answer, in its dialect. */
  readonly isTrino: boolean
  readonly #url: string
  readonly #token: (flags: readonly string[]) => Promise<string>
  readonly #tokens = new Map<Reader, string>()
  /** Of each product, oldest first. */
  readonly epochs = new Map<string, readonly Epoch[]>()

  constructor(name: 'embedded' | 'stack', url: string, token: (flags: readonly string[]) => Promise<string>) {
    this.name = name
    this.isTrino = name === 'stack'
    this.#url = url
    this.#token = token
  }

  /** What was answered, word for word: numbers that JavaScript would round keep their digits. */
  async ask(reader: Reader, path: string, sql?: Json): Promise<{ readonly status: number; readonly text: string }> {
    const headers = { authorization: `Bearer ${this.#tokens.get(reader)}`, 'content-type': 'application/json' }
    const answer = await fetch(`${this.#url}${path}`, {
      headers,
      ...(sql === undefined ? {} : { method: 'POST', body: JSON.stringify(sql) }),
    })
    return { status: answer.status, text: await answer.text() }
  }

  /** Everything up to the first rows, which the source must hold already. */
  async onboard(source: string): Promise<void> {
    const admin = new Client(this.#url, await this.#token(['--role', 'admin']))
    done(await admin.post('/api/v1/tenants', { slug: TENANT, display_name: 'Acme', tier: 'standard' }), 201)
    for (const reader of READERS) {
      const group = reader === 'developer' ? 'svc-developers' : 'svc-viewers'
      const flags = ['--tenant', TENANT, '--group', group, '--user', reader, '--ttl', '2h']
      this.#tokens.set(reader, await this.#token(flags))
    }
    const developer = this.#client('developer')
    done(await developer.post('/api/v1/connections', connectionTo(source)), 201)
    for (const table of TABLES) await this.#deploy(developer, table)
  }

  async #deploy(developer: Client, table: (typeof TABLES)[number]): Promise<void> {
    const wanted = { name: table.name, namespace: DOMAIN, archetype: 'source_aligned', description: '' }
    const { id } = done(await developer.post('/api/v1/products', wanted), 201)
    done(await developer.upload(`/api/v1/products/${id}/manifests`, manifestsOf(table)), 200)
    done(await developer.post(`/api/v1/products/${id}/deploy`, { version: '1.0.0', dry_run: false }), 201)
    for (const [user, classes] of [
      ['named', ['pii.name']],
      ['cleared', ['*']],
    ] as const) {
      done(await developer.post(`/api/v1/products/${id}/grants`, { subject: { user }, may: 'unmask', classes }), 201)
    }
  }

  /** Takes in what the source holds by now. */
  async sync(): Promise<void> {
    const developer = this.#client('developer')
    const { id } = done(await developer.post('/api/v1/connections/db/sync'), 202)
    const run = await developer.untilEnded(id)
    assert.equal(run.state, 'succeeded', `${this.name}: ${JSON.stringify(run)}`)
    for (const { name } of TABLES) this.epochs.set(name, await this.#epochsOf(developer, name))
  }

  async #epochsOf(developer: Client, product: string): Promise<readonly Epoch[]> {
    const { data } = done(await developer.get(`/api/v1/products/${DOMAIN}.${product}/snapshots`), 200)
    return data
      .map((one: Json) => ({ epoch: one.epoch, snapshotId: one.snapshot_id, committedAt: one.committed_at }))
      .reverse()
  }

  #client(reader: Reader): Client {
    return new Client(this.#url, this.#tokens.get(reader) ?? '')
  }
}

function done({ status, body }: Answer, wanted: number): Json {
  assert.equal(status, wanted, JSON.stringify(body))
  return body
}

function manifestsOf({ name, columns, endpoints }: (typeof TABLES)[number]): Readonly<Record<string, string>> {
  const head = (kind: string) => `apiVersion: svc/v1\nkind: ${kind}\n`
  const schema = columns.map(({ name: column, type, classification, nullable }) => {
    const role = nullable === false && column === 'k' ? ', role: identity' : ''
    const wall = classification === undefined ? '' : `, classification: ${classification}`
    return `  - { name: ${column}, type: "${type}"${role}${nullable === false ? ', nullable: false' : ''}${wall} }\n`
  })
  return {
    product: `${head('Product')}name: ${name}\nnamespace: ${DOMAIN}\narchetype: source_aligned\n`,
    inputs: `${head('Inputs')}inputs:\n  - { name: source, connection: db, table: public.${name}, mode: full }\n`,
    output: `${head('Output')}format: iceberg\nschema:\n${schema.join('')}write_mode: replace\n`,
    quality: `${head('Quality')}checks:\n  - name: unique\n    unique: [k]\n`,
    serving: `${head('Serving')}endpoints:\n${endpoints}`,
    compute: `${head('Compute')}engine: auto\ntrigger: on_ingestion\n`,
  }
}
