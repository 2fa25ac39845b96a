/** The pages of all datasets: who may see them is decided at once, and their rows are read by the clock. */
import {
  type DashboardAudience,
  type DashboardDataset,
  type DashboardDatasetId,
  type DashboardServer,
  type DashboardSession,
  type ServiceHost,
  SluiceError,
} from '@sluice/sdk'
import { type KeptDataset, PageFiles, slugOf } from './files.ts'
import { pageOf } from './page.ts'
import { draw } from './rows.ts'
import type { PagesSettings } from './settings.ts'
import { chartsOf } from './templates.ts'

/** How often it is looked whether a page is due. */
const LOOK_MS = 1_000

/** Of a page that cannot be written. */
const LONGEST_PAUSE_MS = 60_000
/** PostgreSQL's codes of refused rights and logins. */
const SHUT = /^(42501|28...)$/

interface Due {
  readonly kept: KeptDataset
  /** By the host's clock. */
  atMs: number
  /** Since the last page. */
  failures: number
}

export class PageServer implements DashboardServer {
  readonly #settings: PagesSettings
  readonly #host: ServiceHost
  readonly #files: PageFiles
  readonly #due = new Map<string, Due>()
  #last: Promise<unknown> = Promise.resolve()
  #stopLooking: () => void = () => undefined

  private constructor(settings: PagesSettings, host: ServiceHost) {
    this.#settings = settings
    this.#host = host
    this.#files = new PageFiles(settings.folder)
  }

  /** Throws CONFIG `dashboards_refused` where the folder is none that it may write to. */
  static async start(settings: PagesSettings, host: ServiceHost): Promise<PageServer> {
    const server = new PageServer(settings, host)
    try {
      await server.#files.prepare()
      for (const kept of await server.#files.kept()) server.#plan(kept)
    } catch (cause) {
      throw new SluiceError('CONFIG', 'the folder of pages cannot be used', {
        code: 'dashboards_refused',
        remedy: 'Name a folder under dashboards.folder that this account may make and write to.',
        cause,
      })
    }
    server.#stopLooking = host.clock.every(LOOK_MS, () => server.renew())
    return server
  }

  async open(): Promise<DashboardSession> {
    return {
      put: (dataset, audience) => this.#inTurn(() => this.#put(dataset, audience)),
      remove: (dataset) => this.#inTurn(() => this.#remove(dataset)),
    }
  }

  /** Each role has its own copy of a page, so that there is no one address. */
  linkTo(): null {
    return null
  }

  async close(): Promise<void> {
    this.#stopLooking()
    this.#due.clear()
    await this.#last
  }

  /** Writes every page that is due. The login gives no rows before `put` has ended: the first page is written after it. */
  async renew(): Promise<void> {
    for (const due of [...this.#due.values()]) {
      if (due.atMs > this.#host.clock.nowMs()) continue
      const { dataset } = due.kept
      try {
        await this.#write(due, await draw(dataset, chartsOf(dataset, this.#settings.rows)))
        due.failures = 0
        due.atMs = this.#host.clock.nowMs() + (dataset.refreshIntervalMs ?? this.#settings.renew_seconds * 1_000)
      } catch (error) {
        await this.#putOff(due, error)
      }
    }
  }

  /** What the database said may hold the address, and is told to nobody. */
  async #putOff(due: Due, error: unknown): Promise<void> {
    const { code = 'unknown' } = error as { readonly code?: string }
    due.failures += 1
    due.atMs = this.#host.clock.nowMs() + Math.min(LONGEST_PAUSE_MS, LOOK_MS * 2 ** due.failures)
    this.#host.logger.warn('a page could not be written', { page: slugOf(due.kept.dataset), code })
    // Rows that were shut off, or are another login's by now, are not shown as they were either.
    if (SHUT.test(code)) await this.#ifStill(due, () => this.#files.withdraw(due.kept.dataset))
  }

  /** Nothing becomes of a dataset that was changed or removed while its rows were read. */
  #write(due: Due, drawn: Parameters<typeof pageOf>[1]): Promise<void> {
    const { dataset } = due.kept
    const at = new Date(this.#host.clock.nowMs()).toISOString()
    return this.#ifStill(due, () => this.#files.write(due.kept, pageOf(dataset, drawn, at)))
  }

  #ifStill(due: Due, change: () => Promise<void>): Promise<void> {
    return this.#inTurn(async () => {
      if (this.#due.get(slugOf(due.kept.dataset)) === due) await change()
    })
  }

  /** What was shown before, perhaps by other masks or to others, is gone when this ends. */
  async #put(dataset: DashboardDataset, { roles }: DashboardAudience): Promise<void> {
    const isShown = chartsOf(dataset, this.#settings.rows).length > 0
    const kept = { dataset, roles: isShown ? roles : [] }
    this.#due.delete(slugOf(dataset))
    await this.#files.keep(kept)
    await this.#files.withdraw(dataset)
    this.#plan(kept)
  }

  async #remove(dataset: DashboardDatasetId): Promise<void> {
    this.#due.delete(slugOf(dataset))
    await this.#files.forget(dataset)
    await this.#files.withdraw(dataset)
  }

  #plan(kept: KeptDataset): void {
    if (kept.roles.length > 0) this.#due.set(slugOf(kept.dataset), { kept, atMs: 0, failures: 0 })
  }

  /** One change of the folder at a time. */
  #inTurn<T>(change: () => Promise<T>): Promise<T> {
    const turn = this.#last.then(change).catch((cause: unknown) => {
      throw new SluiceError('TRANSIENT', 'the folder of pages cannot be written to', {
        code: 'dashboards_unavailable',
        remedy: 'Look at the folder of dashboards.folder and its disk; it is tried again by itself.',
        cause,
      })
    })
    // Its caller is told; the next turn comes all the same.
    this.#last = turn.catch(() => undefined)
    return turn
  }
}
