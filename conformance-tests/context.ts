/** What a check works with: a store, a host, tenants and datasets of its own, all of which it leaves behind clean. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  CLEAR,
  type LakeEngine,
  openTenantScope,
  type PluginManifest,
  type RowPolicy,
  type ServingPlugin,
  type ServingStore,
  type TableSchema,
  type Target,
  type TenantScope,
} from '@sluice/sdk'
import { NO_LAKE } from './change-set.ts'
import type { Level } from './check.ts'
import { Dataset } from './dataset.ts'
import { guarded } from './guarded.ts'
import { RecordingLogger, TestHost, VirtualClock } from './host.ts'
import type { LakeWorkshop } from './lake.ts'
import { type ConfigWish, configFor, type Knobs, templateOf } from './profile.ts'
import { Random } from './random.ts'
import { rowsOf, SIMPLE } from './shapes.ts'
import type { Schedule } from './simulation/schedule.ts'

/** A running store to test against, made by the plugin's author. */
export interface Fixture {
  readonly settings: unknown
  /** Name and version of the store's server, for certificates: `Valkey 9.1.2`. Left out where a store has none. */
  readonly server?: string
  /** For stores that read the lake through a catalog, and not by its files alone. Default: the suite's own. */
  openLake?(): Promise<LakeWorkshop>
  /** Ends the store's server, if it has one, and starts it again on the same data. */
  restart(): Promise<void>
  stop(): Promise<void>
  /** Settings of a store that nobody answers for. Left out where a store has no server: its folder is then taken away. */
  readonly unreachable?: unknown
  /** Settings that the schema takes and that cannot be right. */
  readonly invalid?: readonly unknown[]
  /** Settings whose login could pass by the walls between tenants, for stores that have logins. */
  readonly bypassing?: unknown
}

export interface ContextParts {
  readonly plugin: ServingPlugin
  readonly fixture: Fixture
  readonly knobs: Knobs
  readonly level: Level
  readonly seed: number
  /** The check's name: its random numbers and its tenants are its own. */
  readonly label: string
  /** Present for stores that read the lake. */
  readonly lake: LakeWorkshop | null
  /** What the plugin's package.json says under `sluice`. */
  readonly manifest?: PluginManifest
  /** To be run in the place of random ones. */
  readonly schedules?: readonly Schedule[]
}

export interface DatasetWish extends ConfigWish {
  readonly tenant?: string
  readonly domain?: string
  readonly product?: string
  readonly variant?: string
  /** `none` leaves the policy out. */
  readonly policy?: RowPolicy | 'none'
}

export interface OpenedStore {
  readonly store: ServingStore
  readonly host: TestHost
}

export const FORCED_POLICY: RowPolicy = { version: '1', tenantIsolation: 'forced' }

export class CheckContext {
  readonly plugin: ServingPlugin
  readonly fixture: Fixture
  readonly knobs: Knobs
  readonly level: Level
  readonly random: Random
  readonly clock = new VirtualClock()
  readonly logger = new RecordingLogger()
  readonly #parts: ContextParts
  readonly #stateDirectory: string
  readonly #opened: OpenedStore[] = []
  readonly #datasets: Dataset[] = []
  readonly #tenants = new Map<string, TenantScope>()
  /** What a check measured, by name; advisory, and no part of what makes two reports equal. */
  readonly measured: Record<string, number> = {}
  #main: OpenedStore
  #second: OpenedStore | null = null
  #names = 0
  #calls = 0

  private constructor(parts: ContextParts, stateDirectory: string) {
    this.plugin = parts.plugin
    this.fixture = parts.fixture
    this.knobs = parts.knobs
    this.level = parts.level
    this.random = new Random(parts.seed).fork(parts.label)
    this.#parts = parts
    this.#stateDirectory = stateDirectory
    this.#main = undefined as never
  }

  /** Opens the store. Call `dispose` at the end, whatever happened. */
  static async open(parts: ContextParts): Promise<CheckContext> {
    const stateDirectory = await mkdtemp(join(tmpdir(), 'sluice-conformance-'))
    const context = new CheckContext(parts, stateDirectory)
    try {
      context.#main = await context.openAnother()
    } catch (error) {
      await rm(stateDirectory, { recursive: true, force: true })
      throw error
    }
    return context
  }

  get capabilities(): ServingPlugin['capabilities'] {
    return this.plugin.capabilities
  }

  get store(): ServingStore {
    return this.#main.store
  }

  /** How many hooks were called so far. */
  get calls(): number {
    return this.#calls
  }

  get host(): TestHost {
    return this.#main.host
  }

  get manifest(): PluginManifest | undefined {
    return this.#parts.manifest
  }

  /** Schedules to run in the place of random ones; null where there are none. */
  get schedules(): readonly Schedule[] | null {
    return this.#parts.schedules ?? null
  }

  /** Another client that stays for as long as the check runs. */
  async second(): Promise<OpenedStore> {
    this.#second ??= await this.openAnother()
    return this.#second
  }

  /** Another client of the same store, as another process would be. The check's end closes it. */
  async openAnother(
    other: { readonly settings?: unknown; readonly stateDirectory?: string } = {},
  ): Promise<OpenedStore> {
    const engine: LakeEngine | undefined = this.#parts.lake?.engine
    const host = new TestHost({
      clock: this.clock,
      logger: this.logger,
      stateDirectory: other.stateDirectory ?? this.#stateDirectory,
      seed: this.random.integer(0, 2 ** 31),
      ...(engine ? { lakeEngine: engine } : {}),
    })
    const settings = 'settings' in other ? other.settings : this.#parts.fixture.settings
    const opened = {
      store: guarded(await this.plugin.open(settings, host), 'store', () => void (this.#calls += 1)),
      host,
    }
    this.#opened.push(opened)
    return opened
  }

  /** Another context on the same fixture, with a store, a clock and tenants of its own. The caller disposes of it. */
  fork(label: string): Promise<CheckContext> {
    return CheckContext.open({ ...this.#parts, label: `${this.#parts.label} ${label}` })
  }

  /** Closes the store and opens it again, as the next start of the process does. */
  async reopen(): Promise<void> {
    await this.#close(this.#main)
    this.#main = await this.openAnother()
  }

  /** As `reopen`, with a restart of the server in between. */
  async restart(): Promise<void> {
    await this.#close(this.#main)
    await this.#parts.fixture.restart()
    this.#main = await this.openAnother()
  }

  async #close(opened: OpenedStore): Promise<void> {
    this.#opened.splice(this.#opened.indexOf(opened), 1)
    await opened.store.close()
  }

  /** A path below the check's own folder, at which nothing is. */
  scratch(name: string): string {
    return join(this.#stateDirectory, name)
  }

  /** A tenant of the check's own. The same label gives the same tenant. */
  tenant(label = 'a'): TenantScope {
    const known = this.#tenants.get(label)
    if (known) return known
    const suffix = this.#stateDirectory.slice(-6).toLowerCase()
    return this.tenantNamed(label, `${label}-${suffix}`)
  }

  /** A tenant whose name matters. */
  tenantNamed(label: string, name: string): TenantScope {
    const scope = openTenantScope(name)
    this.#tenants.set(label, scope)
    return scope
  }

  /** What would be provisioned, without doing it. */
  targetFor(schema: TableSchema, wish: DatasetWish = {}): Target {
    this.#names += 1
    return {
      scope: this.tenant(wish.tenant),
      domain: wish.domain ?? 'conformance',
      product: wish.product ?? `p${this.#names}`,
      variant: wish.variant ?? CLEAR,
      schema,
      config: configFor(this.plugin, this.knobs, schema, wish),
    }
  }

  /** A dataset that is not yet provisioned. It is dropped at the check's end. */
  unprovisioned(schema: TableSchema, wish: DatasetWish = {}): Dataset {
    const dataset = new Dataset({
      target: this.targetFor(schema, wish),
      template: templateOf(schema, wish),
      clock: this.clock,
      store: () => this.store,
      capabilities: this.capabilities,
      snapshot: async (of, rows) => this.#parts.lake?.write(of.target, rows) ?? NO_LAKE,
    })
    this.#datasets.push(dataset)
    return dataset
  }

  /** A provisioned dataset with its policy in place, empty. */
  async dataset(schema: TableSchema, wish: DatasetWish = {}): Promise<Dataset> {
    const dataset = this.unprovisioned(schema, wish)
    await this.store.provision(dataset.target, 'apply')
    if (wish.policy !== 'none') await this.store.rls.install(dataset.target, wish.policy ?? FORCED_POLICY)
    return dataset
  }

  /** A provisioned dataset of shape SIMPLE with so many rows, which have been seen to be there. */
  async filled(count: number, wish: DatasetWish = {}): Promise<Dataset> {
    const dataset = await this.dataset(SIMPLE, wish)
    await dataset.full(rowsOf(SIMPLE, 1, count, this.random))
    await dataset.expectRows('the rows must be there before anything else can be said')
    return dataset
  }

  /** The same dataset with another schema, holding what it holds; not provisioned. */
  grown(dataset: Dataset, schema: TableSchema, wish: DatasetWish = {}): Dataset {
    const { domain, product, variant } = dataset.target
    const next = this.unprovisioned(schema, { ...wish, domain, product, variant })
    const width = schema.columns.length
    const widened = [...dataset.content].map(
      ([key, row]) => [key, [...row, ...Array(width).fill(null)].slice(0, width)] as const,
    )
    next.candidates.push(...widened.map(([, row]) => row))
    next.content = new Map(widened)
    next.epoch = dataset.epoch
    next.fence = dataset.fence
    return next
  }

  /** Drops a dataset, and its tenant, before the check's end; a check of many would keep them all. */
  async release(dataset: Dataset): Promise<void> {
    const { scope } = dataset.target
    await this.store.drop(dataset.target, 'apply')
    await this.store.dropTenant(scope)
    this.#datasets.splice(this.#datasets.indexOf(dataset), 1)
    for (const [label, tenant] of this.#tenants) if (tenant === scope) this.#tenants.delete(label)
  }

  /** Drops what the check made and closes what it opened; reports the first thing that went wrong. */
  async dispose(): Promise<void> {
    const problems: unknown[] = []
    const attempt = async (run: () => Promise<unknown>): Promise<void> => {
      await run().catch((error: unknown) => problems.push(error))
    }
    if (this.#main.host.crashed) await attempt(() => this.reopen())
    for (const { target } of this.#datasets) await attempt(() => this.store.drop(target, 'apply'))
    for (const scope of this.#tenants.values()) await attempt(() => this.store.dropTenant(scope))
    for (const { store } of [...this.#opened].reverse()) await attempt(() => store.close())
    await rm(this.#stateDirectory, { recursive: true, force: true })
    if (problems.length > 0) throw problems[0]
  }
}
