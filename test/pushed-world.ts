/** A runtime of its own with products over tables that rows are pushed to, whose changes are followed: nobody asks for a sync. */
import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { type Client, type Json, manifests, ok } from '../acceptance/client.ts'
import { placeTestCluster } from '../runtime/src/database/testing.ts'
import { withDatabase } from './crash/databases.ts'
import { RuntimeProcess } from './crash/runtime-process.ts'
import { adminOf, makeTenant, personOf, registerProduct, uploadAndDeploy } from './first-steps.ts'

const TABLE = {
  columns: [
    { name: 'id', type: 'long' },
    { name: 'v', type: 'long' },
  ],
  primary_key: ['id'],
}
const COLUMNS = `  - { name: id, type: long, role: identity, nullable: false }
  - { name: v, type: long }
`

export interface PushedProduct {
  readonly name: string
  /** Tables, and products as `crm.name`; aliases are `a`, `b` and so on. */
  readonly inputs: readonly string[]
  /** Inputs that are taken as they are, whatever the others rest on. */
  readonly latest?: readonly string[]
  /** Absent: the rows of its one input. */
  readonly transform?: string
  /** Of quality.yaml. */
  readonly checks?: string
}

export class PushedWorld {
  readonly #folder: string
  readonly data: string
  runtime!: RuntimeProcess
  developer!: Client
  /** `limits.workers` of what is started from now on; null: its default. */
  workers: number | null = null
  #pushes = 0

  private constructor(folder: string) {
    this.#folder = folder
    this.data = join(folder, 'data')
  }

  static async open(tables: readonly string[]): Promise<PushedWorld> {
    const world = new PushedWorld(await mkdtemp(join(tmpdir(), 'sluice-waves-')))
    await placeTestCluster(world.data)
    await world.start(null)
    const url = await world.url()
    await makeTenant(await adminOf({ url, data: world.data }))
    const settings = { tables: Object.fromEntries(tables.map((name) => [name, TABLE])) }
    const connection = { name: 'shop', connector_type: 'push', config_encrypted: JSON.stringify(settings) }
    const schedule = { continuous: { max_delay: '100ms' } }
    await ok(world.developer.post('/api/v1/connections', { ...connection, schedule }))
    return world
  }

  /** `fault` as in SLUICE_FAULT. Where that ends it before it serves, it is started without. */
  async start(fault: string | null): Promise<void> {
    const config = join(this.#folder, 'sluice.yaml')
    const workers = this.workers === null ? '' : `, workers: ${this.workers}`
    await writeFile(config, `upkeep: { compare_minutes: 0 }\nlimits: { lease_ms: 3000${workers} }\n`)
    this.runtime = await RuntimeProcess.spawn(this.data, fault, 0, config)
    const url = await this.runtime.address()
    if (url === null && fault !== null) return this.start(null)
    assert.ok(url, this.runtime.output)
    this.developer = await personOf({ url, data: this.data }, 'dora')
  }

  async url(): Promise<string> {
    const url = await this.runtime.address()
    assert.ok(url, this.runtime.output)
    return url
  }

  async stop(): Promise<void> {
    await this.runtime?.stop()
    await rm(this.#folder, { recursive: true, force: true })
  }

  async deploy({ name, inputs, latest = [], transform, checks }: PushedProduct): Promise<void> {
    await registerProduct(this.developer, name)
    const texts = manifests('unused', { columns: COLUMNS, endpoints: '  - type: lookup\n  - type: analytics\n' })
    const lines = inputs.map((one, at) => {
      const from = one.includes('.') ? `product: ${one}` : `connection: shop, table: ${one}`
      return `  - { name: ${'abcdef'[at]}, ${from}${latest.includes(one) ? ', epoch: latest' : ''} }\n`
    })
    await uploadAndDeploy(this.developer, name, {
      ...texts,
      product: texts.product.replace('name: people', `name: ${name}`).replace('source_aligned', 'aggregate'),
      inputs: `apiVersion: svc/v1\nkind: Inputs\ninputs:\n${lines.join('')}`,
      ...(transform === undefined ? {} : { compute: `${texts.compute}transform: ${JSON.stringify(transform)}\n` }),
      ...(checks === undefined ? {} : { quality: `apiVersion: svc/v1\nkind: Quality\nchecks:\n${checks}` }),
    })
  }

  /** Sent again until somebody has it: it counts once. */
  async push(table: string, rows: readonly Json[]): Promise<void> {
    this.#pushes += 1
    const headers = { 'idempotency-key': `push-${this.#pushes}` }
    for (;;) {
      // One that is killed meanwhile answers nobody.
      const answer = await this.developer
        .post(`/api/v1/connections/shop/events?table=${table}`, rows, headers)
        .catch(() => null)
      if (answer !== null && answer.status < 300) return
      if (answer !== null) assert.ok(answer.status >= 500 || answer.status === 429, JSON.stringify(answer.body))
      if (answer === null) await this.comeBack()
    }
  }

  async restart(fault: string | null): Promise<void> {
    this.runtime.kill()
    await this.runtime.ended
    await this.start(fault)
  }

  /** Where it has ended meanwhile; who is told nothing by it may be told so a moment before. */
  async comeBack(): Promise<void> {
    await sleep(50)
    if (this.runtime.isEnded) await this.start(null)
  }

  /** Values by id, as its lookup store has them; null: there is nothing to read. */
  async rows(product: string): Promise<ReadonlyMap<number, number> | null> {
    const answer = await this.developer.get(`/api/v1/products/${product}/latest?limit=1000`).catch(() => null)
    if (answer === null || answer.status >= 300) return null
    return new Map(answer.body.data.map(({ id, v }: Json) => [Number(id), Number(v)]))
  }

  registry<T>(work: (client: pg.Client) => Promise<T>): Promise<T> {
    return withDatabase(this.data, 'sluice_registry', work)
  }

  /** Asked again where the registry has ended with its runtime. */
  async found(statement: string, values: readonly unknown[] = []): Promise<readonly Json[]> {
    for (;;) {
      try {
        return await this.registry(async (client) => (await client.query(statement, [...values])).rows)
      } catch (error) {
        // What it refuses for what is asked has a state of SQL of another class.
        const { code = '' } = error as { readonly code?: string }
        if (/^(?!57|08)[0-9A-Z]{5}$/.test(code) && !code.startsWith('E')) throw error
        await this.comeBack()
      }
    }
  }

  /** As if its makings had taken so long of late. */
  async take(product: string, tookMs: number): Promise<void> {
    await this.found(
      `insert into product_makings (product_id, took_ms) select id, $2 from products where name = $1
       on conflict (product_id) do update set took_ms = excluded.took_ms`,
      [product, tookMs],
    )
  }
}
