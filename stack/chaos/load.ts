/** Readers of every kind and, for each tenant, one who changes the source and syncs; each does one thing after the other. */
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import type { Json } from '../../acceptance/client.ts'
import { faultsOf, KINDS, type Kind, type Question, questionAt, shownRows, stateOf } from './judge.ts'
import { nextVersion, type Person, type Tenant } from './world.ts'

/** Nothing may take longer, whatever does not answer; the runtime's own deadlines are shorter. */
const PATIENCE_MS = 45_000
/** Between two things that one does; longer where servers that need much share the machine. */
const PAUSE_MS = 150
/** Readers rest for as long as they waited, so that a slow machine comes to its own work; not after a long outage. */
const MAX_PAUSE_MS = 2000

export interface Tally {
  answered: number
  /** By what was said: `503 store_unavailable realtime …` → how often. */
  readonly refused: Map<string, number>
  /** What was asked for in vain. */
  readonly refusedKinds: Set<Kind>
  /** Requests that the runtime which held them took with it. */
  lost: number
  /** Which question of which person was answered since the last reset. */
  readonly whole: Set<string>
  readonly synced: Set<string>
  slowestMs: number
}

export class Load {
  readonly #url: string
  readonly #source: pg.Client
  readonly #tenants: readonly Tenant[]
  readonly #pauseMs: number
  readonly #versions = new Map<string, number>()
  readonly #working: Promise<unknown>[] = []
  readonly wrong: string[] = []
  readonly runs: { readonly tenant: Tenant; readonly id: string }[] = []
  #tally = freshTally()
  #isStopped = false
  /** Whether a request may go unanswered now: where a runtime is hurt, not one of its servers. */
  mayLose = false
  /** Whether a query may take longer than it has: where Trino, which answers them, has too little of the machine. */
  mayBeSlow = false

  constructor(url: string, source: pg.Client, tenants: readonly Tenant[], pauseMs = PAUSE_MS) {
    this.#url = url
    this.#source = source
    this.#tenants = tenants
    this.#pauseMs = pauseMs
  }

  start(): void {
    for (const tenant of this.#tenants) {
      for (const [index, person] of tenant.people.entries()) this.#working.push(this.#reading(person, index))
      this.#working.push(this.#syncing(tenant))
    }
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    await Promise.all(this.#working)
  }

  /** What was seen since the last time. */
  take(): Tally {
    const taken = this.#tally
    this.#tally = freshTally()
    return taken
  }

  get tally(): Readonly<Tally> {
    return this.#tally
  }

  /** Everybody has been given everything, and everybody's source has been taken in, since the last `take`. */
  get isWhole(): boolean {
    return this.hasGiven(KINDS) && this.#tally.synced.size === this.#tenants.length
  }

  /** Everybody has been given an answer of each of these kinds since the last `take`. */
  hasGiven(kinds: readonly Kind[]): boolean {
    const people = this.#tenants.flatMap((tenant) => tenant.people)
    return people.every((person) => kinds.every((kind) => this.#tally.whole.has(questionOf(person, kind))))
  }

  async #reading(person: Person, first: number): Promise<void> {
    for (let turn = first; !this.#isStopped; turn += 1) {
      const startedMs = performance.now()
      await this.#ask(person, questionAt(turn))
      await sleep(Math.min(MAX_PAUSE_MS, Math.max(this.#pauseMs, performance.now() - startedMs)))
    }
  }

  async #ask(person: Person, question: Question): Promise<void> {
    const startedMs = performance.now()
    const tally = this.#tally
    const mayLose = this.mayLose
    const answer = await this.#send(person, question).catch((error: unknown) => String(error))
    const tookMs = performance.now() - startedMs
    tally.slowestMs = Math.max(tally.slowestMs, tookMs)
    const who = questionOf(person, question.kind)
    if (typeof answer === 'string' || answer.status === 502) {
      tally.lost += 1
      if (!mayLose && !this.mayLose) this.wrong.push(`${who}: no answer: ${JSON.stringify(answer)}`)
      return
    }
    if (tookMs > PATIENCE_MS) this.wrong.push(`${who}: answered after ${Math.round(tookMs)} ms`)
    if (answer.status === 200) this.#judge(who, person, question, answer.body, tally)
    else this.#refused(who, question.kind, answer)
  }

  async #send(person: Person, { path, sql }: Question) {
    const response = await fetch(`${this.#url}${path}`, {
      headers: { authorization: `Bearer ${person.token}`, 'content-type': 'application/json' },
      signal: AbortSignal.timeout(2 * PATIENCE_MS),
      ...(sql === undefined ? {} : { method: 'POST', body: JSON.stringify({ sql }) }),
    })
    const type = response.headers.get('content-type') ?? ''
    return { status: response.status, type, body: response.status === 502 ? null : ((await response.json()) as Json) }
  }

  #judge(who: string, person: Person, question: Question, body: Json, tally: Tally): void {
    const rows = shownRows(question.kind, body)
    for (const fault of faultsOf(person, question, rows)) this.wrong.push(`${who}: ${fault}`)
    const state = `${person.tenant} ${person.seesClear} ${stateOf(question.kind, body)}`
    const version = rows[0]?.version ?? 0
    const known = this.#versions.get(state) ?? version
    this.#versions.set(state, known)
    if (known !== version) this.wrong.push(`${who}: ${state} is of version ${known}, and of ${version}`)
    tally.answered += 1
    tally.whole.add(who)
  }

  #refused(
    who: string,
    kind: Kind,
    { status, type, body }: { readonly status: number; readonly type: string; readonly body: Json },
  ) {
    const said = `${status} ${body.code}: ${body.detail}`
    this.#tally.refused.set(said, (this.#tally.refused.get(said) ?? 0) + 1)
    this.#tally.refusedKinds.add(kind)
    const isExpected = status === 503 || (this.mayBeSlow && body.code === 'query_timeout')
    if (!isExpected || !type.startsWith('application/problem+json')) this.wrong.push(`${who}: ${said}`)
  }

  async #syncing(tenant: Tenant): Promise<void> {
    while (!this.#isStopped) {
      const tally = this.#tally
      await nextVersion(this.#source, tenant.slug)
      const state = await this.#sync(tenant).catch(() => 'unknown')
      if (state === 'succeeded') tally.synced.add(tenant.slug)
      await sleep(this.#pauseMs)
    }
  }

  async #sync(tenant: Tenant): Promise<string> {
    const { status, body } = await tenant.developer.post('/api/v1/connections/db/sync')
    if (status !== 202) return body.code
    this.runs.push({ tenant, id: body.id })
    while (!this.#isStopped) {
      const { status: seen, body: run } = await tenant.developer.get(`/api/v1/ingestion/${body.id}`)
      if (seen === 200 && run.state !== 'queued' && run.state !== 'running') return run.state
      if (seen !== 200 && seen !== 503 && seen !== 502) this.wrong.push(`${tenant.slug} run: ${seen} ${run.code}`)
      await sleep(this.#pauseMs)
    }
    return 'unknown'
  }
}

const questionOf = (person: Person, kind: Kind): string => `${person.tenant}/${person.name} ${kind}`

function freshTally(): Tally {
  return {
    answered: 0,
    refused: new Map(),
    refusedKinds: new Set(),
    lost: 0,
    whole: new Set(),
    synced: new Set(),
    slowestMs: 0,
  }
}
