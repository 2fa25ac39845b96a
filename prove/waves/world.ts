/** A runtime with these products over a source whose log is read. It may be killed at any moment, and starts again. */
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client, type Json, manifests, ok } from '../../acceptance/client.ts'
import type { SourceCluster } from '../../plugins/connectors/postgresql/source-server.ts'
import { issueToken } from '../../runtime/src/auth/embedded-issuer.ts'
import { RuntimeProcess } from '../../test/crash/runtime-process.ts'
import { until } from '../../test/until.ts'
import { FOLDER } from './engine-jobs.ts'
import { createViews } from './oracle.ts'
import { LARGE_TABLE, type Made, SMALL_ROWS } from './products.ts'

const COLUMNS = '  - { name: id, type: integer, role: identity, nullable: false }\n  - { name: n, type: long }\n'
/** Deployments at a time, of products that are not made of each other. */
const AT_A_TIME = 2
const TOKEN_S = 36_000

const SETTINGS: Readonly<Record<string, string>> = {
  SLUICE_LIMITS__LEASE_MS: '2000',
  // What the clock would do meanwhile is no part of a wave.
  ...Object.fromEntries(
    ['COMPACT', 'EXPIRE', 'CLEAN', 'PRUNE', 'COMPARE'].map((task) => [`SLUICE_UPKEEP__${task}_MINUTES`, '0']),
  ),
  // A runtime that is looked into runs from its modules, of which one is watched, and not from one file.
  NODE_OPTIONS: '--enable-source-maps',
}

/** The process ends after so many milliseconds, and the one that follows at the n-th of its steps, or not. */
export interface Kill {
  readonly afterMs: number
  readonly nextAtStep: number | null
}

export class World {
  readonly folder: string
  readonly source: SourceCluster
  readonly #jobs: string
  #runtime: RuntimeProcess | null = null
  #client: Client | null = null
  #isArmed = false
  kills = 0

  /** @param jobs the folder where the engine's jobs are noted */
  constructor(folder: string, source: SourceCluster, jobs: string) {
    this.folder = folder
    this.source = source
    this.#jobs = jobs
  }

  get api(): Client {
    if (this.#client === null) throw new Error('the runtime has not been started')
    return this.#client
  }

  get pid(): number {
    return this.#process.pid
  }

  get #process(): RuntimeProcess {
    if (this.#runtime === null) throw new Error('the runtime has not been started')
    return this.#runtime
  }

  async start(endsAtStep: number | null = null): Promise<string> {
    const fault = endsAtStep === null ? null : `any@${endsAtStep}`
    const preload = join(import.meta.dirname, 'engine-jobs.ts')
    await rm(join(this.folder, 'runtime.json'), { force: true })
    const started = await RuntimeProcess.spawn(this.folder, fault, 0, undefined, preload, {
      ...SETTINGS,
      [FOLDER]: this.#jobs,
    })
    this.#runtime = started
    this.#isArmed = fault !== null
    const url = await started.address()
    if (url !== null) {
      const token = { tenant: 'acme', groups: ['svc-developers'], user: 'dora' }
      this.#client = new Client(url, await issueToken(this.folder, token, { ttlS: TOKEN_S }))
      return url
    }
    // It has taken the run up again and come to the step before it could say where it serves.
    if (fault === null) throw new Error(`the runtime did not start: ${started.output}`)
    this.kills += 1
    return this.start()
  }

  async #kill({ nextAtStep }: Kill): Promise<void> {
    this.#process.kill()
    await this.#process.ended
    this.kills += 1
    await this.start(nextAtStep)
  }

  /** The run of a sync, when it has ended well, however often the runtime was killed meanwhile. */
  async sync(kills: readonly Kill[] = []): Promise<Json> {
    const { id } = await ok(this.api.post('/api/v1/connections/db/sync'))
    for (const kill of kills) {
      await sleep(kill.afterMs)
      await this.#kill(kill)
    }
    const run = await this.#ended(id)
    if (run.state !== 'succeeded') throw new Error(`the run ended: ${JSON.stringify(run.error ?? run)}`)
    // What was to end it has not come about in this wave, and must not in the next.
    if (this.#isArmed) {
      await this.stop()
      await this.start()
    }
    return run
  }

  async #ended(id: string): Promise<Json> {
    for (;;) {
      if (this.#process.isEnded) {
        if (!this.#isArmed) throw new Error(`the runtime has ended by itself: ${this.#process.output}`)
        this.kills += 1
        await this.start()
      }
      // Nobody answers where it has just come to its step.
      const answer = await this.api.get(`/api/v1/ingestion/${id}`).catch(() => null)
      if (answer !== null && answer.body.state !== 'queued' && answer.body.state !== 'running') return answer.body
      await sleep(150)
    }
  }

  async stop(): Promise<void> {
    await this.#runtime?.stop()
  }

  /** What the runtime started and still runs, when it has stopped. */
  async survivors(): Promise<readonly string[]> {
    return (await this.#runtime?.lastSurvivors()) ?? []
  }
}

export interface Sizes {
  readonly tables: number
  readonly rows: number
}

/** Tables with their rows, views, and all products deployed. None of them has an epoch yet. */
export async function prepare(world: World, made: readonly Made[], { tables, rows }: Sizes, signal: AbortSignal) {
  const { user, database, host, port, password } = world.source.settings
  await world.source.sql(`ALTER ROLE ${user} REPLICATION; GRANT CREATE ON DATABASE ${database} TO ${user};`)
  const create = (name: string, count: number, factor: number) =>
    world.source.sql(`CREATE TABLE ${name} (id int PRIMARY KEY, n bigint); ALTER TABLE ${name} OWNER TO ${user};
      INSERT INTO ${name} SELECT i, (i * ${factor}) % 101 FROM generate_series(1, ${count}) i`)
  for (let index = 0; index < tables; index += 1) await create(`t${index}`, SMALL_ROWS, 7 + index)
  if (made.some(({ of }) => of.includes(LARGE_TABLE))) await create(LARGE_TABLE, rows, 7)
  await createViews(world.source, made)
  const admin = new Client(await world.start(), await issueToken(world.folder, { role: 'admin' }, { ttlS: TOKEN_S }))
  await ok(admin.post('/api/v1/tenants', { slug: 'acme', display_name: 'Acme', tier: 'enterprise' }))
  const config_encrypted = JSON.stringify({ host, port, user, password, database, ssl_mode: 'prefer' })
  await ok(world.api.post('/api/v1/connections', { name: 'db', connector_type: 'postgresql', config_encrypted }))
  for (const [, layer] of [...Map.groupBy(made, (one) => one.layer)].sort(([a], [b]) => a - b)) {
    const open = [...layer]
    const deployNext = async (): Promise<void> => {
      for (let one = open.shift(); one !== undefined; one = open.shift()) {
        signal.throwIfAborted()
        await deploy(world.api, one)
      }
    }
    await Promise.all(Array.from({ length: AT_A_TIME }, deployNext))
  }
}

/** What is said of manifests that could not be read in time: on a machine that is busy with other things, of any. */
const BUSY: ReadonlySet<string> = new Set(['input_too_costly', 'too_many_at_once'])

async function deploy(client: Client, made: Made): Promise<void> {
  const registration = { name: made.name, namespace: 'made', archetype: 'aggregate', description: '' }
  await ok(client.post('/api/v1/products', registration))
  await until(`a draft of ${made.name}`, async () => {
    const { status, body } = await client.upload(`/api/v1/products/made.${made.name}/manifests`, filesOf(made))
    if (status >= 300 && !BUSY.has(body.code)) throw new Error(JSON.stringify(body))
    return status < 300
  })
  await ok(client.post(`/api/v1/products/made.${made.name}/deploy`, { version: '1.0.0', dry_run: false }))
}

function filesOf({ name, layer, of, sql, isUnchecked }: Made) {
  const texts = manifests('unused', { columns: COLUMNS, endpoints: '  - type: lookup\n' })
  const isOfTables = layer === 1
  const inputs = of.map((one, index) => {
    const alias = index === 0 ? 'a' : 'b'
    return isOfTables
      ? `  - { name: ${alias}, connection: db, table: ${one}, mode: cdc }\n`
      : `  - { name: ${alias}, product: made.${one} }\n`
  })
  return {
    ...texts,
    ...(isUnchecked === true ? { quality: 'apiVersion: svc/v1\nkind: Quality\n' } : {}),
    product: `${texts.product
      .replace('name: people', `name: ${name}`)
      .replace('namespace: crm', 'namespace: made')
      .replace('source_aligned', isOfTables ? 'source_aligned' : 'aggregate')}`,
    inputs: `apiVersion: svc/v1\nkind: Inputs\ninputs:\n${inputs.join('')}`,
    compute: `${texts.compute.replace('engine: auto', 'engine: embedded')}transform: ${JSON.stringify(sql)}\n`,
  }
}
