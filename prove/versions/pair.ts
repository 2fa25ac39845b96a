/** One pair of versions: planned, deployed as planned, read meanwhile and afterwards, and often gone back on. */
import { setTimeout as sleep } from 'node:timers/promises'
import { type Answer, type Client, type Json, ok } from '../../acceptance/client.ts'
import type { Random } from '../../conformance-tests/random.ts'
import { type Door, doorsOf, pastOf, textOf } from './doors.ts'
import { Follower } from './followed.ts'
import { isBreaking, nextVersion } from './generator.ts'
import { spoiled } from './invalid.ts'
import { type Lane, synced } from './lane.ts'
import { type Content, type Outcome, outcomeOf, type Row, shownOfPast, shownTo } from './oracle.ts'
import { judgePlan } from './plan-truth.ts'
import { maskFor, READERS, type Reader } from './readers.ts'
import { changed, rowsSql, type Source } from './source.ts'
import { filesOf, keyOf, type Named, type Version } from './version.ts'
import { type Answers, isTold, judgePolls, judgeSettled, type Polled, settled, whileAsked } from './watch.ts'

/** A product between two pairs. */
export interface State {
  readonly content: Content
  /** Of the version in service: `major.minor.patch`. */
  readonly number: string
  /** The highest that was ever deployed. */
  readonly major: number
  readonly minor: number
  readonly isPaused: boolean
  readonly source: Source
}

export interface Counts {
  polls: number
  stricter: number
  told: number
  refused: number
  blocked: number
  rollbacks: number
  previews: number
  notCounted: number
  followed: number
}

export interface PairResult {
  readonly state: State
  readonly changes: readonly string[]
  readonly found: readonly string[]
}

export class Pair {
  readonly #lane: Lane
  readonly #named: Named
  readonly #random: Random
  readonly #counts: Counts
  readonly #found: string[] = []

  constructor(lane: Lane, named: Named, random: Random, counts: Counts) {
    this.#lane = lane
    this.#named = named
    this.#random = random
    this.#counts = counts
  }

  get #path(): string {
    return `/api/v1/products/made.${this.#named.name}`
  }

  async play(given: State): Promise<PairResult> {
    const state = await this.#withOtherRows(given)
    const from = state.content
    const { version: next, changes } = nextVersion(this.#random.fork('version'), from.version)
    if (this.#random.chance(0.08)) await this.#refuseSpoiled(next)
    const outcome = outcomeOf(next, state.source, from)
    const to: Content = { version: next, rows: outcome.rows }
    const breaks = isBreaking(from.version, next)
    const number = breaks ? `${state.major + 1}.0.0` : `${state.number.split('.')[0]}.${state.minor + 1}.0`
    await ok(this.#lane.owner.upload(`${this.#path}/manifests`, filesOf(next, this.#named)))
    if (breaks && this.#random.chance(0.15)) await this.#refuseNumber(state)
    const planned = await this.#planned(number, [])
    if (planned === null) return { state, changes, found: this.#found }
    this.#say(judgePlan(planned.plan, { from, next, outcome, isBreaking: breaks }))
    if (planned.plan.rows.not_counted !== null) this.#counts.notCounted += 1
    await this.#judgeLowering(planned, from.version, next, number)
    const deployed = {
      ...state,
      number,
      major: Math.max(state.major, Number(number.split('.')[0])),
      minor: state.minor + 1,
      isPaused: false,
    }
    const doors = doorsOf(this.#named.name, [from.version, next], [from.rows as Row[], to.rows as Row[]])
    const isPreviewed = this.#random.chance(0.1)
    const work = isPreviewed ? () => this.#promote(planned, number, to, outcome) : () => this.#deploy(planned, number)
    const isMade = await this.#switch(from, to, doors, work, outcome)
    if (!isMade) return { state: await this.#recover(deployed, from), changes, found: this.#found }
    const made = { ...deployed, content: to }
    await this.#judgePast(state, next)
    const last = this.#random.chance(0.35) ? await this.#goBack(made, state, doors) : made
    return { state: last, changes, found: this.#found }
  }

  #say(found: readonly string[]): void {
    this.#found.push(...found)
  }

  /** The source goes on between versions. */
  async #withOtherRows(state: State): Promise<State> {
    if (state.isPaused && this.#random.chance(0.5)) {
      const { id } = await ok(this.#lane.owner.post(`${this.#path}/resume`))
      await this.#lane.owner.untilEnded(id)
      return { ...state, isPaused: false }
    }
    if (state.isPaused || !this.#random.chance(0.4)) return state
    const source = changed(this.#random.fork('rows'), state.source)
    await this.#lane.source.query(rowsSql(this.#named.table, this.#named.places, source))
    const run = await synced(this.#lane, this.#named.connection)
    const outcome = outcomeOf(state.content.version, source, state.content)
    if (outcome.isBlocked) return { ...state, source }
    if (run.state !== 'succeeded') this.#say([`a sync ended: ${JSON.stringify(run.error)}`])
    return { ...state, source, content: { version: state.content.version, rows: outcome.rows } }
  }

  async #refuseSpoiled(next: Version): Promise<void> {
    const { mistake, files } = spoiled(this.#random.fork('mistake'), filesOf(next, this.#named), next)
    const answer = await this.#lane.owner.upload(`${this.#path}/plan?version=99.0.0`, files)
    this.#counts.refused += 1
    if (answer.status < 400 || answer.status >= 500) {
      this.#say([`manifests with ${mistake} are answered with ${answer.status} ${answer.body.code ?? ''}`])
    }
  }

  /** A breaking version takes another major number. */
  async #refuseNumber(state: State): Promise<void> {
    const version = `${state.number.split('.')[0]}.${state.minor + 1}.0`
    const planned = await this.#planned(version, [])
    const told = planned?.plan.problems.map(({ code }: Json) => code) ?? []
    const answer = await this.#deployment(planned, version, planned?.plan.lowered_classes ?? [])
    this.#counts.refused += 1
    if (!told.includes('breaking_change') || answer.body.code !== 'breaking_change')
      this.#say([
        `a breaking version as ${version}: the plan says ${told.join()}, the deployment ${answer.status} ${answer.body.code}`,
      ])
  }

  async #planned(version: string, lower: readonly string[]): Promise<Json | null> {
    const answer = await this.#lane.owner.post(`${this.#path}/deploy`, { version, dry_run: true, lower })
    if (answer.status === 200) return answer.body
    this.#say([`the plan is refused: ${answer.status} ${JSON.stringify(answer.body)}`])
    return null
  }

  #deployment(planned: Json | null, version: string, lower: readonly string[], more: object = {}): Promise<Answer> {
    const { digest, stores_hash } = planned ?? {}
    const wanted = { version, dry_run: false, digest, stores_hash, lower, ...more }
    return this.#lane.owner.post(`${this.#path}/deploy`, wanted)
  }

  /** Classes become lower by their names alone. */
  async #judgeLowering(
    { digest, stores_hash, plan }: Json,
    from: Version,
    next: Version,
    number: string,
  ): Promise<void> {
    const lowered: readonly string[] = plan.lowered_classes
    const direct = next.columns.flatMap(({ name, classification }) => {
      const old = from.columns.find((one) => one.name === name)?.classification ?? null
      return old !== null && old !== classification ? [name] : []
    })
    const missing = direct.filter((name) => !lowered.includes(name))
    if (missing.length > 0)
      this.#say([`plan: the class of ${missing.join()} becomes lower, and lowered_classes says ${lowered.join()}`])
    const told = plan.problems.map(({ code }: Json) => code).join()
    const wanted = lowered.length > 0 ? 'class_lowering_unnamed' : ''
    if (told !== wanted) this.#say([`plan: its problems are ${told}, and ${wanted || 'none'} is expected`])
    if (lowered.length === 0 || !this.#random.chance(0.3)) return
    const answer = await this.#deployment({ digest, stores_hash }, number, [])
    this.#counts.refused += 1
    if (answer.body.code !== 'class_lowering_unnamed')
      this.#say([`a class is lowered without a word: ${answer.status} ${answer.body.code}`])
  }

  /** Gives how the run ended, and when the deployment had been decided. */
  async #deploy(planned: Json, number: string): Promise<Ended> {
    return this.#ended(await this.#deployment(planned, number, planned.plan.lowered_classes), number)
  }

  async #ended({ status, body }: Answer, number: string): Promise<Ended> {
    const decidedMs = performance.now()
    if (status >= 300) return { decidedMs, error: `${status} ${JSON.stringify(body)}`, isRefused: true }
    if (body.run_id) {
      const run = await this.#lane.owner.untilEnded(body.run_id)
      if (run.state !== 'succeeded') return { decidedMs, error: JSON.stringify(run.error ?? run), isRefused: false }
    }
    const { data } = await ok(this.#lane.owner.get(`${this.#path}/snapshots`))
    if (data[0]?.version === number) return { decidedMs, error: null, isRefused: false }
    // Columns that nobody has read yet come with a sync, as the plan's notes say.
    const run = await synced(this.#lane, this.#named.connection)
    const product = run.products?.find((one: Json) => one.name === `made.${this.#named.name}`)
    const isMade = run.state === 'succeeded' && product?.state === 'succeeded'
    return { decidedMs, error: isMade ? null : JSON.stringify(run), isRefused: false }
  }

  async #promote(planned: Json, number: string, to: Content, outcome: Outcome): Promise<Ended> {
    const { owner } = this.#lane
    const lower = planned.plan.lowered_classes
    const staged = await this.#deployment(planned, number, lower, { stage: 'preview' })
    if (staged.status >= 300) {
      // An input that was never read, or lacks columns, has no rows to preview.
      if (staged.body.code === 'input_not_ingested') return this.#deploy(planned, number)
      return { decidedMs: performance.now(), error: `preview: ${JSON.stringify(staged.body)}`, isRefused: true }
    }
    this.#counts.previews += 1
    const run = await owner.untilEnded(staged.body.run_id)
    if ((run.state === 'succeeded') === outcome.isBlocked)
      this.#say([`the preview ended: ${run.state} ${JSON.stringify(run.error)}`])
    if (run.state === 'succeeded') await this.#judgePreview(to)
    if (this.#random.chance(0.7)) {
      const { digest } = planned
      const answer = await owner.post(`${this.#path}/promote`, { digest, lower })
      return this.#ended(answer, number)
    }
    await ok(owner.send(`${this.#path}/preview`, { method: 'DELETE' }))
    while ((await ok(owner.get(this.#path))).preview !== null) await sleep(100)
    return this.#deploy(planned, number)
  }

  /** As its developer reads it. */
  async #judgePreview(to: Content): Promise<void> {
    const [reader] = READERS.filter(({ name }) => name === 'dora') as [Reader]
    // Keys that stay are those of the product, of which a preview has none.
    if (to.version.keepsMissing) return
    const { status, body } = await this.#lane.owner.post('/api/v1/query', {
      sql: `SELECT * FROM made."${this.#named.name}@preview"`,
      limit: 1000,
    })
    const shown = shownTo(reader, to)
    if (shown === null) {
      if (body.code !== 'table_not_found') this.#say([`the preview is read: ${status}`])
      return
    }
    if (status !== 200) return this.#say([`the preview: ${status} ${JSON.stringify(body)}`])
    if (body.rows.length !== shown.length)
      this.#say([`the preview has ${body.rows.length} rows, and the oracle ${shown.length}`])
  }

  /** False where the version is in service and has no rows, as a check has it. */
  async #switch(
    from: Content,
    to: Content,
    doors: readonly Door[],
    work: () => Promise<Ended>,
    outcome: Pick<Outcome, 'isBlocked'>,
  ): Promise<boolean> {
    const lane = this.#lane
    const before = await settled(lane, doors)
    this.#say(judgeSettled(lane, doors, before, from).map((text) => `before: ${text}`))
    const followers = await this.#followers(from, to)
    const { result, polls } = await whileAsked(lane, doors, async () => {
      const ended = await work()
      await sleep(150)
      return ended
    })
    const after = await settled(lane, doors)
    try {
      if (result.error !== null) {
        if (!outcome.isBlocked || result.isRefused) this.#say([`it was not made: ${result.error}`])
        else this.#counts.blocked += 1
        this.#judgeBlocked(doors, { from, to, before, after, polls, decidedMs: result.decidedMs })
        return false
      }
      if (outcome.isBlocked) this.#say(['a check was to block it, and it was made'])
      this.#say(judgeSettled(lane, doors, after, to).map((text) => `after: ${text}`))
      const judged = judgePolls(lane, doors, { from, to, before, after, polls, decidedMs: result.decidedMs })
      this.#say(judged.found)
      this.#counts.polls += judged.polls
      this.#counts.stricter += judged.stricter
      this.#counts.told += judged.told
      await this.#judgeFollowers(followers, from, to)
      return true
    } finally {
      await Promise.all([...followers.values()].map((one) => one.end()))
    }
  }

  /** What was there stays, under the stricter policy. */
  #judgeBlocked(
    doors: readonly Door[],
    change: {
      from: Content
      to: Content
      before: Answers
      after: Answers
      polls: ReadonlyMap<string, readonly Polled[]>
      decidedMs: number
    },
  ): void {
    for (const reader of READERS) {
      for (const door of doors) {
        const place = `${door.name}, ${reader.name}`
        const { heard } = change.after.get(place) as Polled
        const [old] = [change.before.get(place) as Polled]
        const isOpen = shownTo(reader, { version: change.to.version, rows: [] }) !== null
        if (heard.rows === null || !isOpen) {
          if (heard.rows !== null) this.#say([`blocked: ${place}: rows of a product that is closed by now`])
          else if (
            isOpen &&
            old.heard.code !== heard.code &&
            !isTold(change, door, reader, heard) &&
            !ENDPOINT_CODES.has(heard.code ?? '')
          )
            this.#say([`blocked: ${place}: ${heard.status} ${heard.code}`])
          continue
        }
        const told = textOf(heard.rows, this.#lane.pseudonyms)
        if (
          old.heard.rows !== null &&
          told !== textOf(old.heard.rows, this.#lane.pseudonyms) &&
          !Array.isArray(reader.clear)
        )
          this.#say([`blocked: ${place}: other rows than before`])
        for (const column of change.to.version.columns) {
          const clear = new Set<unknown>(
            change.from.rows.map((row) => row[column.name]).filter((value) => value != null),
          )
          if (maskFor(reader, column) !== null && heard.rows.some((row) => clear.has(row[column.name] ?? null)))
            this.#say([`blocked: ${place}: ${column.name} in clear`])
        }
      }
    }
  }

  async #followers(from: Content, to: Content): Promise<ReadonlyMap<Reader, Follower>> {
    const followers = new Map<Reader, Follower>()
    if (!this.#random.chance(0.4)) return followers
    const names = ({ version }: Content) => keyOf(version).map(({ name }) => name)
    for (const reader of READERS.filter(({ name }) => name === 'vito' || name === 'clara')) {
      const follower = new Follower(this.#lane.pseudonyms, names(from), names(to))
      await follower.begin(this.#lane.clients.get(reader.name) as never, this.#named.name)
      if (follower.problem === null) followers.set(reader, follower)
    }
    return followers
  }

  async #judgeFollowers(followers: ReadonlyMap<Reader, Follower>, from: Content, to: Content): Promise<void> {
    for (const [reader, follower] of followers) {
      const [old, next] = [from, to].map((content) => shownTo(reader, content))
      const canFollow =
        next != null && keyOf(to.version).every((column) => [null, 'hash'].includes(maskFor(reader, column)))
      if (!canFollow || !old) continue
      this.#counts.followed += 1
      const wanted = textOf(next, this.#lane.pseudonyms)
      const endsMs = performance.now() + FOLLOWED_MS
      while (follower.states.at(-1) !== wanted && follower.problem === null && performance.now() < endsMs)
        await sleep(50)
      const between = follower.states.filter((one) => one !== wanted && one !== textOf(old, this.#lane.pseudonyms))
      if (follower.problem !== null && follower.problem !== 'mask_pending')
        this.#say([`changes, ${reader.name}: the stream ended with ${follower.problem}`])
      else if (follower.problem === null && follower.states.at(-1) !== wanted)
        this.#say([
          `changes, ${reader.name}: ${follower.states.length} states, the last is not that of the version: ${follower.states.at(-1)?.slice(0, 200)} in place of ${wanted.slice(0, 200)}`,
        ])
      else if (between.length > 0)
        this.#say([`changes, ${reader.name}: an epoch of neither version: ${between[0]?.slice(0, 300)}`])
    }
  }

  /** What the version before left is read by the stricter of its policy and today's. */
  async #judgePast({ content, number }: State, now: Version): Promise<void> {
    for (const reader of READERS) {
      const expected = shownOfPast(reader, content, now)
      if (expected === null) continue
      const heard = await pastOf(this.#lane.clients.get(reader.name) as Client, this.#named.name, number)
      if (expected === 'closed' || expected === 'refused') {
        const code = expected === 'closed' ? 'table_not_found' : 'snapshot_not_masked'
        if (heard.code !== code)
          this.#say([`the past, ${reader.name}: ${heard.status} ${heard.code ?? 'rows'} in place of ${code}`])
        continue
      }
      const [own, wanted] = [heard.rows ?? [], expected].map((rows) => textOf(rows, this.#lane.pseudonyms)) as [
        string,
        string,
      ]
      if (heard.code !== null || own !== wanted)
        this.#say([
          `the past, ${reader.name}: ${heard.status} ${heard.code} ${own.slice(0, 300)} in place of ${wanted.slice(0, 300)}`,
        ])
    }
  }

  /** All values of the version before are there again. */
  async #goBack(made: State, state: State, doors: readonly Door[]): Promise<State> {
    const { owner } = this.#lane
    this.#counts.rollbacks += 1
    const request = (lower: readonly string[]) => owner.post(`${this.#path}/rollback`, { version: state.number, lower })
    const isMade = await this.#switch(
      made.content,
      state.content,
      doors,
      async () => {
        let answer = await request([])
        if (answer.body.code === 'class_lowering_unnamed') {
          const columns: readonly string[] = answer.body.details?.columns ?? answer.body.columns ?? []
          answer = await request(columns.length > 0 ? columns : state.content.version.columns.map(({ name }) => name))
        }
        const decidedMs = performance.now()
        if (answer.status >= 300)
          return { decidedMs, error: `rollback: ${answer.status} ${JSON.stringify(answer.body)}`, isRefused: true }
        const run = await owner.untilEnded(answer.body.run_id)
        return {
          decidedMs: Number.POSITIVE_INFINITY,
          error: run.state === 'succeeded' ? null : JSON.stringify(run.error),
          isRefused: false,
        }
      },
      { isBlocked: false },
    )
    if (!isMade) return made
    return { ...made, content: state.content, number: state.number, isPaused: true }
  }

  /** What is in service has no rows: the version before comes again, under a number of its own. */
  async #recover(state: State, former: Content): Promise<State> {
    const number = `${state.major + 1}.0.0`
    const version = { ...former.version, checks: [], description: `again ${number}` }
    await ok(this.#lane.owner.upload(`${this.#path}/manifests`, filesOf(version, this.#named)))
    const planned = await this.#planned(number, [])
    const outcome = outcomeOf(version, state.source, former)
    const to = { version, rows: outcome.rows }
    const ended = planned === null ? null : await this.#deploy(planned, number)
    if (ended === null || ended.error !== null)
      throw new Error(`the product cannot be brought back: ${ended?.error}; ${this.#found.join('; ')}`)
    const doors = doorsOf(this.#named.name, [version, version], [to.rows as Row[], to.rows as Row[]])
    this.#say(
      judgeSettled(this.#lane, doors, await settled(this.#lane, doors), to).map(
        (text) => `after it was brought back: ${text}`,
      ),
    )
    return { ...state, content: to, number, major: state.major + 1 }
  }
}

interface Ended {
  readonly decidedMs: number
  readonly error: string | null
  /** By the deployment itself. */
  readonly isRefused: boolean
}

const FOLLOWED_MS = 20_000
/** Of an endpoint that came or went with the version. */
const ENDPOINT_CODES: ReadonlySet<string> = new Set([
  'endpoint_not_declared',
  'not_materialized',
  'key_not_found',
  'filter_not_indexed',
])
