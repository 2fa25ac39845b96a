/**
 * The processes that read sources. What a source sends is parsed there and nowhere else, by connectors as they are:
 * behind walls, with bounded memory and time, without files, keys, environment or programs, and with no sockets but
 * those that the runtime has connected for them.
 */
import { existsSync, realpathSync } from 'node:fs'
import { dirname, join, parse, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { PoolLoad, Wall, WallName } from '@sluice/engine'
import { ChildPool, LateStart } from '@sluice/engine/child-pool'
import { DescriptorLine } from '@sluice/engine/descriptors'
import { loadLibc } from '@sluice/engine/libc'
import { memoryWatchWall } from '@sluice/engine/memory-watch'
import { UserIds } from '@sluice/engine/user-ids'
import { type Connector, type ConnectorHost, type ConnectorPlugin, isSluiceError } from '@sluice/sdk'
import type { CpuAccounts } from '../registry/cpu-accounts.ts'
import { FolderRules } from './folder-rules.ts'
import type { ProgramRules } from './programs/program-rules.ts'
import { Programs } from './programs/programs.ts'
import { bundleSourceChild } from './source-bundle.ts'
import { SourceChild, type SourceChildProgram } from './source-child.ts'
import { readerLate, readersBusy, stopped } from './source-failure.ts'
import { SourcePlaces } from './source-places.ts'
import { type SessionLimits, SourceSession } from './source-session.ts'
import { type CallLimits, WalledConnector } from './walled-connector.ts'

export interface SourceReaderOptions extends SessionLimits, CallLimits, Pick<SourceChildProgram, 'codeCacheDir'> {
  /** Connectors at work at the same time. */
  readonly maxReaders: number
  /** Folders that must stay out of reach: the data's, the keys', the configuration's. */
  readonly privateFolders: readonly string[]
  /** Which folders connections may name. Absent: none. */
  readonly folders?: FolderRules
  /** Which programs of others connectors may start. Absent: none. */
  readonly programs?: ProgramRules
  /** Without these nothing is read (`walls_missing`). Default: none. */
  readonly neededWalls?: readonly WallName[]
  /** Whose work it is, and who may have no more of it now. Absent: nothing is counted. */
  readonly accounts?: CpuAccounts
  /** Only as root: the first of `maxReaders` user ids that own nothing. */
  readonly firstUserId?: number
}

/** Whose connection it is, where that is known: tenants share the processes evenly. */
export interface SourceHost extends ConnectorHost {
  readonly tenant?: string
}

interface WalledModule {
  readonly module: string
  readonly codeFolders: readonly string[]
  /** Of the machine, as the settings name them; judged anew whenever a process begins. */
  readonly folders: () => readonly string[]
  readonly readsChanges: boolean
  /** Of connections. */
  readonly type: string
}

const DEFAULT_FIRST_USER_ID = 60_900
const MAX_WAITING = 1000
/** A small sync is over by then: what follows a read are several processes of the engine, one after the other. */
const WARM_AFTER_MS = 1000

export class SourceReaders {
  readonly #options: SourceReaderOptions
  /** Of the connector that was asked for last: sources are mostly read by the same. */
  #lastModule: string | null = null
  #bundle: Promise<string> | null = null
  #childBundle: string | undefined
  readonly #pool: ChildPool<SourceChild>
  readonly #users: UserIds | null
  #walls: readonly Wall[] = []

  constructor(options: SourceReaderOptions) {
    this.#options = options
    const descriptors = new DescriptorLine(loadLibc())
    this.#pool = new ChildPool(() => new SourceChild(descriptors, this.#program()), {
      maxChildren: options.maxReaders,
      warmChildren: 1,
      // Most of the time no source is read: the first one is started when a connection is opened.
      warmAfterMs: WARM_AFTER_MS,
      maxQueued: MAX_WAITING,
    })
    this.#users = process.getuid?.() === 0 ? new UserIds(options.firstUserId ?? DEFAULT_FIRST_USER_ID) : null
  }

  /** The plugin, its connectors behind walls. Its own code here sees settings only, never a source. */
  wall(plugin: ConnectorPlugin, moduleUrl: string): ConnectorPlugin {
    const codeFolders = codeFoldersOf(fileURLToPath(moduleUrl), this.#options.privateFolders)
    return {
      ...plugin,
      open: async (settings, host: SourceHost) => {
        this.#lastModule = moduleUrl
        this.#pool.warmUp()
        await (await plugin.open(settings, host)).close()
        const readsChanges = plugin.capabilities.modes.includes('cdc')
        const known = settings as Readonly<Record<string, unknown>>
        const folders = () => this.#foldersOf(plugin, known, host.tenant ?? null)
        folders()
        const { type } = plugin
        return this.#connector({ module: moduleUrl, codeFolders, folders, readsChanges, type }, known, host)
      },
    }
  }

  /** Makes the program that processes start from, in this folder; until it is there they start slower. */
  async prepare(dir: string): Promise<void> {
    this.#bundle = bundleSourceChild(dir)
    this.#childBundle = await this.#bundle
  }

  /** The walls of the last process; none before the first. */
  walls(): readonly Wall[] {
    return this.#walls
  }

  load(): PoolLoad {
    return this.#pool.load
  }

  /** Ends every process, those at work too. */
  async close(): Promise<void> {
    await this.#pool.close()
    // Nothing is written any more to a folder that may be about to go.
    await this.#bundle?.catch(() => undefined)
  }

  #program(): SourceChildProgram {
    const { codeCacheDir } = this.#options
    return {
      module: this.#lastModule,
      ...(this.#childBundle === undefined ? {} : { childBundle: this.#childBundle }),
      ...(codeCacheDir === undefined ? {} : { codeCacheDir }),
    }
  }

  #connector(
    { module, codeFolders, folders, readsChanges, type }: WalledModule,
    settings: Readonly<Record<string, unknown>>,
    host: SourceHost,
  ): Connector {
    const places = new SourcePlaces(host.network, settings)
    const { accounts } = this.#options
    const tenant = host.tenant ?? null
    const start = async (signal: AbortSignal, timeoutMs: number) => {
      if (tenant !== null) accounts?.refuseSpent(tenant)
      const readFolders = folders()
      const child = await this.#take(tenant, timeoutMs, signal)
      if (accounts !== undefined) child.cpu.tell((seconds) => accounts.charge(tenant, 'source', seconds))
      const { neededWalls = [] } = this.#options
      const open = { module, settings, codeFolders, readFolders, userId: this.#userFor(child), neededWalls }
      const onWalls = (walls: readonly Wall[]) => {
        this.#walls = [...walls, memoryWatchWall()]
      }
      const programs = this.#programsFor(type, tenant)
      return new SourceSession(child, { host, places, limits: this.#options, open, onWalls, programs })
    }
    return new WalledConnector(start, places, this.#options, { readsChanges })
  }

  async #take(owner: string | null, timeoutMs: number, signal: AbortSignal): Promise<SourceChild> {
    const deadline = AbortSignal.timeout(timeoutMs)
    try {
      return (await this.#pool.take(owner, deadline, signal)).child
    } catch (error) {
      if (signal.aborted) throw stopped(signal.reason)
      if (isSluiceError(error) && error.code !== 'engine_busy') throw error
      throw error instanceof LateStart ? readerLate(timeoutMs, error) : readersBusy(error)
    }
  }

  /** Throws PERMISSION `folder_refused`. */
  #foldersOf(
    { settingsSchema }: ConnectorPlugin,
    settings: Readonly<Record<string, unknown>>,
    tenant: string | null,
  ): readonly string[] {
    const rules = this.#options.folders ?? new FolderRules({}, [])
    return rules.rootsOf(settingsSchema, settings, tenant).filter((folder) => existsSync(folder))
  }

  #programsFor(type: string, tenant: string | null): Programs | null {
    const { programs: rules, accounts } = this.#options
    if (rules === undefined || !rules.knows(type)) return null
    return new Programs({
      allowed: (name) => rules.of(type, name, tenant),
      charge: (seconds) => accounts?.charge(tenant, 'source', seconds),
      takeUser: (ended) => this.#userUntil(ended),
    })
  }

  #userFor(child: SourceChild): number | null {
    return this.#userUntil(child.ended)
  }

  #userUntil(ended: Promise<unknown>): number | null {
    if (!this.#users) return null
    const userId = this.#users.take()
    void ended.then(() => this.#users?.giveBack(userId))
    return userId
  }
}

/**
 * Where a connector may still load code from when it is behind walls: its module's own folder and the packages that it
 * can import. None that holds something private: by path, a plugin may lie beside the configuration.
 */
function codeFoldersOf(modulePath: string, privateFolders: readonly string[]): readonly string[] {
  const module = realpathSync(modulePath)
  const folders = [dirname(module)]
  for (let folder = dirname(module); folder !== parse(folder).root; folder = dirname(folder)) {
    const packages = join(folder, 'node_modules')
    if (existsSync(packages)) folders.push(realpathSync(packages))
  }
  const secret = privateFolders.filter((folder) => existsSync(folder)).map((folder) => realpathSync(folder))
  return folders.filter((folder) => !secret.some((one) => isWithin(one, folder)))
}

function isWithin(folder: string, other: string): boolean {
  const path = relative(other, folder)
  return path === '' || (!path.startsWith('..') && !path.startsWith('/'))
}
