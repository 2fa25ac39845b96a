/** How the servers beside the runtime are, as each says when it is asked from time to time; nobody waits for one to be told. */
import { type Clock, isSluiceError, type RunningService, type ServiceKind, type ServicePlugin } from '@sluice/sdk'

export interface ServiceState {
  readonly kind: ServiceKind
  readonly name: string
  /** `unknown`: of one that cannot be asked, or has not answered yet. */
  readonly status: 'ok' | 'down' | 'unknown'
  /** Since when it is so, as far as this process has seen. */
  readonly since: Date | null
  readonly message?: string
  /** What to do, of one that is down. */
  readonly remedy?: string
}

const EVERY_MS = 10_000
const ANSWER_MS = 5_000
/** From the best to the worst. */
const ORDER: readonly ServiceState['status'][] = ['ok', 'unknown', 'down']

type Named = Pick<ServicePlugin<ServiceKind, never, unknown>, 'kind' | 'name'>

export class ServiceHealth {
  readonly #states = new Map<object, ServiceState>()
  readonly #answerMs: number

  constructor(answerMs = ANSWER_MS) {
    this.#answerMs = answerMs
  }

  /** From now on, until the clock of its host is stopped. Asks it at once, and waits for nothing. */
  watch({ kind, name }: Named, service: Pick<RunningService, 'ping'>, clock: Clock): void {
    this.#states.set(service, { kind, name, status: 'unknown', since: null })
    if (service.ping === undefined) return
    const ask = () => this.#ask(service)
    clock.every(EVERY_MS, ask)
    void ask()
  }

  forget(service: object): void {
    this.#states.delete(service)
  }

  /** Each that is open; of two of one kind and name the one that is worse. */
  states(): readonly ServiceState[] {
    const worst = new Map<string, ServiceState>()
    for (const state of this.#states.values()) {
      const key = `${state.kind}:${state.name}`
      const other = worst.get(key)
      if (other === undefined || isWorse(state, other)) worst.set(key, state)
    }
    return [...worst.values()]
  }

  async #ask(service: Pick<RunningService, 'ping'>): Promise<void> {
    const found = await this.#found(service)
    const before = this.#states.get(service)
    if (before === undefined) return
    const { kind, name } = before
    const since = before.status === found.status ? before.since : new Date()
    this.#states.set(service, { kind, name, since, ...found })
  }

  /** One answer that is lost tells nothing of a server that was well: it would take all runtimes out of a balancer at once. */
  async #found(service: Pick<RunningService, 'ping'>): Promise<Pick<ServiceState, 'status' | 'message' | 'remedy'>> {
    const found = await answerOf(service, this.#answerMs)
    const wasWell = this.#states.get(service)?.status === 'ok'
    return found.status === 'down' && wasWell ? answerOf(service, this.#answerMs) : found
  }
}

const isWorse = ({ status }: ServiceState, than: ServiceState): boolean =>
  ORDER.indexOf(status) > ORDER.indexOf(than.status)

async function answerOf(
  service: Pick<RunningService, 'ping'>,
  answerMs: number,
): Promise<Pick<ServiceState, 'status' | 'message' | 'remedy'>> {
  const signal = AbortSignal.timeout(answerMs)
  const over = Promise.withResolvers<never>()
  signal.addEventListener('abort', () => over.reject(signal.reason), { once: true })
  try {
    // One that throws before it has promised anything leaves nobody else to hear of its time being over.
    await Promise.race([over.promise, Promise.resolve().then(() => service.ping?.(signal))])
    return { status: 'ok' }
  } catch (error) {
    // What another error says may hold addresses, and is for nobody.
    if (!isSluiceError(error)) return { status: 'down', message: 'it does not answer', remedy: SEE_TO_IT }
    return { status: 'down', message: error.message, remedy: error.remedy ?? SEE_TO_IT }
  }
}

const SEE_TO_IT = 'Check that the server is up and reachable, and its settings; it is asked again by itself.'
