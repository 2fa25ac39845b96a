/** What readers are answered while a version takes the place of another, and whether that is as it may be. */
import { setTimeout as sleep } from 'node:timers/promises'
import { type Door, expectedAt, type Heard, learn, textOf } from './doors.ts'
import type { Lane } from './lane.ts'
import { type Cell, type Content, shownTo } from './oracle.ts'
import { maskFor, mayRead, READERS, type Reader } from './readers.ts'
import type { VersionColumn } from './version.ts'

/** Of the readers whose answers are looked at without a pause. */
const POLLING = ['vito', 'clara', 'pam'] as const
const PAUSE_MS = { query: 600, other: 100 } as const

export interface Polled {
  readonly heard: Heard
  readonly text: string
  readonly startedMs: number
}

export type Answers = ReadonlyMap<string, Polled>
export type Polls = ReadonlyMap<string, readonly Polled[]>

const placeOf = (door: Door, reader: Reader): string => `${door.name}, ${reader.name}`

async function asked(lane: Lane, door: Door, reader: Reader): Promise<Polled> {
  const startedMs = performance.now()
  const client = lane.clients.get(reader.name)
  if (client === undefined) throw new Error(`nobody is called ${reader.name}`)
  const heard = await door.ask(client)
  return { heard, startedMs, text: '' }
}

/** With names of pseudonyms, which may have been learned since. */
export function toldBy({ heard }: Pick<Polled, 'heard'>, lane: Lane): string {
  if (heard.rows === null) return `${heard.status} ${heard.code}`
  return `${heard.version ?? ''}\n${textOf(heard.rows, lane.pseudonyms)}`
}

/** Each door as each reader. */
export async function settled(lane: Lane, doors: readonly Door[]): Promise<Answers> {
  const answers = new Map<string, Polled>()
  const readers = READERS.map(async (reader) => {
    for (const door of doors) answers.set(placeOf(door, reader), await asked(lane, door, reader))
  })
  await Promise.all(readers)
  return answers
}

/** What is read is held against what the oracle has of the version. */
export function judgeSettled(
  lane: Lane,
  doors: readonly Door[],
  answers: Answers,
  content: Content,
): readonly string[] {
  const found: string[] = []
  const made = Map.groupBy(
    [...answers].filter(([, { heard }]) => heard.version !== null),
    ([, { heard }]) => heard.version,
  )
  if (made.size > 1) {
    const told = [...made].map(([version, places]) => `${version} at ${places.map(([place]) => place).join('; ')}`)
    found.push(`answers are of several versions: ${told.join(' | ')}`)
  }
  for (const reader of READERS) {
    for (const door of doors) {
      const expected = expectedAt(door, reader, content)
      const { heard } = answers.get(placeOf(door, reader)) as Polled
      if (expected === null) continue
      if ('code' in expected) {
        if (heard.code !== expected.code)
          found.push(`${placeOf(door, reader)}: ${toldShortly(heard)} in place of ${expected.code}`)
        continue
      }
      if (heard.rows === null) {
        found.push(`${placeOf(door, reader)}: ${toldShortly(heard)} in place of ${expected.rows.length} rows`)
        continue
      }
      try {
        learn(heard.rows, expected.rows, lane.pseudonyms)
      } catch (error) {
        found.push(`${placeOf(door, reader)}: ${(error as Error).message}`)
      }
      const text = textOf(heard.rows, lane.pseudonyms)
      const wanted = expectedText(text, expected.rows, lane)
      if (text !== wanted) found.push(`${placeOf(door, reader)}: ${differenceOf(text, wanted)}`)
    }
  }
  return found
}

/** A pseudonym that was never met is one of any value. */
function expectedText(text: string, rows: readonly { readonly [name: string]: Cell }[], lane: Lane): string {
  if (!text.includes('"#?"')) return textOf(rows, lane.pseudonyms)
  const blurred = rows.map((row) =>
    Object.fromEntries(
      Object.entries(row).map(([name, value]) => [
        name,
        typeof value === 'string' && value.startsWith('#pii.') && text.includes(`["${name}","#?"]`) ? '#?' : value,
      ]),
    ),
  )
  return textOf(blurred, lane.pseudonyms)
}

function differenceOf(heard: string, wanted: string): string {
  const [own, expected] = [heard.split('\n'), wanted.split('\n')]
  const more = own.filter((line) => !expected.includes(line))
  const less = expected.filter((line) => !own.includes(line))
  return `${own.length} rows of ${expected.length}; not expected: ${more.slice(0, 2).join(' ')}; missing: ${less.slice(0, 2).join(' ')}`
}

const toldShortly = ({ status, code, rows }: Heard): string =>
  rows === null ? `${status} ${code}` : `${rows.length} rows`

/** Asks while `work` is done. Errors are answers, too. */
export async function whileAsked<T>(lane: Lane, doors: readonly Door[], work: () => Promise<T>) {
  const done = new AbortController()
  const polls = new Map<string, Polled[]>()
  const asking = READERS.filter(({ name }) => (POLLING as readonly string[]).includes(name)).flatMap((reader) =>
    doors.map(async (door) => {
      const own: Polled[] = []
      polls.set(placeOf(door, reader), own)
      while (!done.signal.aborted) {
        own.push(await asked(lane, door, reader))
        await sleep(door.kind === 'query' ? PAUSE_MS.query : PAUSE_MS.other)
      }
    }),
  )
  const result = await work().finally(() => done.abort())
  await Promise.all(asking)
  return { result, polls }
}

export interface Switch {
  readonly from: Content
  readonly to: Content
  readonly before: Answers
  readonly after: Answers
  readonly polls: Polls
  /** When the policy of the next version was in force at the latest. */
  readonly decidedMs: number
}

export interface Judged {
  readonly found: readonly string[]
  readonly polls: number
  /** Answers with masks of everybody to a reader who is cleared for some classes, whose own rows were still being written. */
  readonly stricter: number
  /** Refusals that the plan tells of: of columns that it hides. */
  readonly told: number
}

/** Each answer is of the one version or of the other, whole, and of the newer one from its first answer on. */
export function judgePolls(lane: Lane, doors: readonly Door[], change: Switch): Judged {
  const found: string[] = []
  const counts = { polls: 0, stricter: 0, told: 0 }
  const [everybody] = READERS as [Reader]
  const textAt = (answers: Answers, door: Door, reader: Reader) =>
    toldBy(answers.get(placeOf(door, reader)) as Polled, lane)
  for (const reader of READERS) {
    for (const door of doors) {
      const own = change.polls.get(placeOf(door, reader)) ?? []
      const [old, next] = [textAt(change.before, door, reader), textAt(change.after, door, reader)]
      const strict = [textAt(change.before, door, everybody), textAt(change.after, door, everybody)]
      let isNew = false
      let lastEpoch = 0
      for (const poll of own) {
        counts.polls += 1
        const text = toldBy(poll, lane)
        const { epoch } = poll.heard
        if (epoch !== null && epoch < lastEpoch)
          found.push(`${placeOf(door, reader)}: epoch ${epoch} after ${lastEpoch}`)
        lastEpoch = Math.max(lastEpoch, epoch ?? 0)
        found.push(...abovePolicy(change, door, reader, poll))
        if (text === next) isNew = true
        else if (text === old) {
          if (isNew) found.push(`${placeOf(door, reader)}: the version before, after the next one`)
        } else if (isTold(change, door, reader, poll.heard)) counts.told += 1
        else if (Array.isArray(reader.clear) && strict.includes(text)) counts.stricter += 1
        else
          found.push(
            `${placeOf(door, reader)}: met neither version: ${shortened(text)} ${poll.heard.columns ?? ''}, before ${shortened(old)}, after ${shortened(next)}`,
          )
      }
    }
  }
  return { found: [...new Set(found)], ...counts }
}

const shortened = (text: string): string => {
  const lines = text.split('\n')
  return `${lines[0]} ${lines.length - 1} rows: ${lines.slice(1, 3).join(' ').slice(0, 300)}`
}

/** Refusals that a plan tells of, or a decision that is on record. */
export function isTold(
  { from, to }: Pick<Switch, 'from' | 'to'>,
  door: Door,
  reader: Reader,
  { code }: Heard,
): boolean {
  if (code === 'mask_pending') {
    return to.version.columns.some((column) => {
      const mask = maskFor(reader, column)
      const old = from.version.columns.find(({ name }) => name === column.name)
      if (mask === null) return false
      return old === undefined ? isShownBefore(from, column) : maskFor(reader, old) !== mask || old.of !== column.of
    })
  }
  if (code !== 'not_materialized') return false
  const kind = door.kind === 'get' || door.kind === 'history' ? 'lookup' : door.kind
  return kind !== 'query' && from.version[kind] === null && to.version[kind] !== null
}

/** Under another name: what a class hides of the source is hidden in the rows of before, too. */
const isShownBefore = ({ version }: Content, { of }: VersionColumn): boolean =>
  version.columns.some((column) => column.of === of)

/** Values in clear of what the next version hides, in answers to what was asked when it had been decided. */
function abovePolicy(
  { from, to, decidedMs }: Switch,
  door: Door,
  reader: Reader,
  { heard, startedMs }: Polled,
): readonly string[] {
  if (heard.rows === null || heard.rows.length === 0 || startedMs < decidedMs) return []
  if (!mayRead(reader, to.version.classification))
    return [`${placeOf(door, reader)}: rows of a product that is closed by now`]
  const hidden = to.version.columns.filter((column) => maskFor(reader, column) !== null)
  const isOpen = ({ of }: VersionColumn) =>
    to.version.columns.some((one) => one.of === of && maskFor(reader, one) === null)
  const former = from.version.columns.filter(
    ({ of, made }) => made !== 'count' && hidden.some((one) => one.of === of && !isOpen(one)),
  )
  return [...new Map([...former, ...hidden].map((one) => [one.name, one])).values()].flatMap((column) => {
    const clear = new Set<unknown>(
      [...from.rows, ...to.rows].map((row) => row[column.name]).filter((value) => value != null),
    )
    const shown = heard.rows?.find((row) => clear.has(row[column.name] ?? null))
    return shown === undefined
      ? []
      : [`${placeOf(door, reader)}: ${column.name} in clear, which is hidden by now: ${shown[column.name]}`]
  })
}

export { shownTo }
