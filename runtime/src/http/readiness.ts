import { isSluiceError } from '@sluice/sdk'

/** A dependency that readiness asks about. */
export interface Probe {
  readonly name: string
  /** Rejects, or gives `ok: false`, while the dependency does not work. What it gives is shown to anybody: no address and no version. */
  check(signal: AbortSignal): Promise<Readonly<Record<string, unknown>> | undefined>
}

export interface CheckResult {
  readonly name: string
  readonly ok: boolean
  readonly latency_ms: number
  readonly message?: string
  readonly [detail: string]: unknown
}

export interface Readiness {
  readonly status: 'ready' | 'not_ready'
  readonly checks: readonly CheckResult[]
}

const PROBE_TIMEOUT_MS = 2_000
/** However often it is asked, the dependencies are asked this often at most. */
const MAX_AGE_MS = 1_000

const STOPPING: CheckResult = { name: 'runtime', ok: false, latency_ms: 0, message: 'the runtime is stopping' }

export class ReadinessChecks {
  readonly #probes: readonly Probe[]
  #isStopping = false
  #latest: { readonly atMs: number; readonly result: Promise<Readiness> } | null = null

  constructor(probes: readonly Probe[]) {
    this.#probes = probes
  }

  /** Not ready from now on, and for good: requests are answered still, and better sent elsewhere. */
  stop(): void {
    this.#isStopping = true
  }

  /** Never rejects; takes two seconds at most. */
  async check(): Promise<Readiness> {
    const result = await this.#checkDependencies()
    if (!this.#isStopping) return result
    return { status: 'not_ready', checks: [STOPPING, ...result.checks] }
  }

  #checkDependencies(): Promise<Readiness> {
    const nowMs = performance.now()
    if (this.#latest === null || nowMs - this.#latest.atMs > MAX_AGE_MS) {
      this.#latest = { atMs: nowMs, result: this.#checkAll() }
    }
    return this.#latest.result
  }

  async #checkAll(): Promise<Readiness> {
    const checks = await Promise.all(this.#probes.map(runProbe))
    return { status: checks.every((check) => check.ok) ? 'ready' : 'not_ready', checks }
  }
}

async function runProbe(probe: Probe): Promise<CheckResult> {
  const startedMs = performance.now()
  const latency = (): number => Math.round(performance.now() - startedMs)
  const signal = AbortSignal.timeout(PROBE_TIMEOUT_MS)
  try {
    const details = await Promise.race([probe.check(signal), rejectOnAbort(signal)])
    return { ok: true, ...details, name: probe.name, latency_ms: latency() }
  } catch (error) {
    const message = isSluiceError(error) ? error.message : signal.aborted ? 'it did not answer in time' : 'it failed'
    return { name: probe.name, ok: false, latency_ms: latency(), message }
  }
}

function rejectOnAbort(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason), { once: true }))
}
