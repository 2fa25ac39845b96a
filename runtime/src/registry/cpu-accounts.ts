/**
 * Whose work uses the processors. What children use is put on the account of the tenant that they work for, which the
 * registry keeps for all runtimes; it is carried there every few seconds, and back comes who has to wait.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { type Logger, SluiceError } from '@sluice/sdk'
import { Outage } from './outage.ts'

/** Children of a runtime by what they do; engines outside by their name. */
export type CpuProcess = 'engine' | 'source' | (string & {})

export interface CpuCharge {
  readonly tenant: string
  readonly seconds: number
}

export interface CpuDebt {
  readonly tenant: string
  /** Until what it used has drained below its limit. */
  readonly waitMs: number
}

/** Where all runtimes keep what tenants have used. */
export interface CpuLedger {
  /** Adds all of them or none. */
  charge(charges: readonly CpuCharge[]): Promise<void>
  /** The tenants that have used more than they may. */
  debts(): Promise<readonly CpuDebt[]>
}

export interface CpuAccountsOptions {
  readonly ledger: CpuLedger
  readonly logger: Logger
  /** How often the registry is told, and asked. Default 5 s. */
  readonly everyMs?: number
  /** Told of everything that was used, the runtime's own work too. */
  onUsed?(process: CpuProcess, seconds: number): void
  readonly nowMs?: () => number
}

const EVERY_MS = 5_000

/** The tenant of the run that work is a part of. */
const payer = new AsyncLocalStorage<string>()

/** What children do for `work` is the tenant's, and is let in whatever it has used: its run was let in as a whole. */
export function onAccountOf<T>(tenant: string, work: () => Promise<T>): Promise<T> {
  return payer.run(tenant, work)
}

export class CpuAccounts {
  readonly #options: CpuAccountsOptions
  readonly #nowMs: () => number
  readonly #outage = new Outage()
  /** Not carried to the registry yet. */
  #charges = new Map<string, number>()
  #spentUntilMs: ReadonlyMap<string, number> = new Map()
  #timer: NodeJS.Timeout | null = null
  #settling: Promise<void> | null = null

  constructor(options: CpuAccountsOptions) {
    this.#options = options
    this.#nowMs = options.nowMs ?? (() => performance.now())
  }

  async start(): Promise<void> {
    await this.settle()
    this.#timer = setInterval(() => void this.settle(), this.#options.everyMs ?? EVERY_MS)
    this.#timer.unref()
  }

  /** Carries what is left to the registry. */
  async stop(): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer)
    await this.#settling
    await this.settle()
  }

  /**
   * Who pays for what is asked for here: the tenant of the run that this is a part of, else the one that asks.
   * @param asking null for the runtime's own work
   */
  payerOf(asking: string | null): string | null {
    return payer.getStore() ?? asking
  }

  charge(tenant: string | null, process: CpuProcess, seconds: number): void {
    this.#options.onUsed?.(process, seconds)
    if (tenant !== null) this.#add(tenant, seconds)
  }

  isSpent(tenant: string): boolean {
    return (this.#spentUntilMs.get(tenant) ?? 0) > this.#nowMs()
  }

  /** For what is asked for outside of runs. Throws QUOTA `cpu_time_spent` where the tenant has used what it may. */
  refuseSpent(tenant: string): void {
    if (payer.getStore() !== undefined) return
    const waitMs = (this.#spentUntilMs.get(tenant) ?? 0) - this.#nowMs()
    if (waitMs > 0) throw cpuTimeSpent(waitMs)
  }

  /** Of several calls at once one is made. What cannot be carried now is carried with the next. */
  settle(): Promise<void> {
    this.#settling ??= this.#carry().finally(() => {
      this.#settling = null
    })
    return this.#settling
  }

  async #carry(): Promise<void> {
    try {
      await this.#carryCharges()
      const debts = await this.#options.ledger.debts()
      const nowMs = this.#nowMs()
      this.#spentUntilMs = new Map(debts.map(({ tenant, waitMs }) => [tenant, nowMs + waitMs]))
      this.#outage.over()
    } catch (error) {
      const [{ message }, { logger }] = [error as Error, this.#options]
      this.#outage.tell(() =>
        logger.warn('CPU time of tenants could not be settled with the registry', { error: message }),
      )
    }
  }

  async #carryCharges(): Promise<void> {
    const charges = this.#charges
    if (charges.size === 0) return
    this.#charges = new Map()
    try {
      await this.#options.ledger.charge([...charges].map(([tenant, seconds]) => ({ tenant, seconds })))
    } catch (error) {
      for (const [tenant, seconds] of charges) this.#add(tenant, seconds)
      throw error
    }
  }

  #add(tenant: string, seconds: number): void {
    this.#charges.set(tenant, (this.#charges.get(tenant) ?? 0) + seconds)
  }
}

function cpuTimeSpent(waitMs: number): SluiceError {
  return new SluiceError('QUOTA', 'the tenant has used the CPU time that its tier has', {
    code: 'cpu_time_spent',
    remedy: 'Wait, read by key or page from endpoints of stores, or ask the operator for another tier.',
    retryAfterMs: Math.max(1000, waitMs),
  })
}
