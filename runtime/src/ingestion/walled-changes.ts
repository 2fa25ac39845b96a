/** The log of a connector whose code runs in processes of its own. */
import type { ChangeEvent, ChangePosition, ChangeSource, RefusedStream } from '@sluice/sdk'
import {
  checkedChange,
  checkedHealth,
  checkedIncarnation,
  checkedNews,
  checkedPosition,
  checkedRefusal,
  isIncarnation,
} from './change-answers.ts'
import { BrokenAnswer } from './source-answers.ts'
import { lineFailure } from './source-failure.ts'
import type { ChangeCall } from './source-protocol.ts'
import type { Part } from './source-session.ts'

/** Makes a call under the limit of that name. */
type Caller = (call: ChangeCall, limit: 'callMs' | 'readMs', signal: AbortSignal) => AsyncGenerator<Part, string | null>

const NO_ROWS = new Uint8Array(0)

/** Behind walls every hook is there, also one that the connector has not. */
export interface WalledChanges extends ChangeSource {
  /** Whether the connector has `refusals`: whether anybody can say beforehand which tables its log would tell. */
  judges(signal: AbortSignal): Promise<boolean>
}

export function walledChanges(call: Caller): WalledChanges {
  return {
    async judges(signal) {
      const [answer] = await partsOf(call({ method: 'changes.judges' }, 'callMs', signal))
      return answer === true
    },
    async refusals({ signal, ...asked }) {
      const parts = await partsOf(call({ method: 'changes.refusals', ...asked }, 'callMs', signal))
      return believed(() => refusalsOf(parts, asked.streams.length))
    },
    async prepare({ capture, streams, anew = false, signal }) {
      const asked = { method: 'changes.prepare', capture, streams, anew } as const
      const [position, ...tables] = await partsOf(call(asked, 'callMs', signal))
      return believed(() => {
        const { incarnations = [], refused = [] } = Object.groupBy(tables, (told) =>
          isIncarnation(told) ? 'incarnations' : 'refused',
        )
        if (incarnations.length > streams.length) throw new BrokenAnswer('more was told than tables were asked for')
        return {
          position: checkedPosition(position),
          refused: refusalsOf(refused, streams.length),
          incarnations: incarnations.map(checkedIncarnation),
        }
      })
    },
    async *changes({ capture, after, streams, signal }) {
      const parts = call({ method: 'changes.read', capture, after, streams }, 'readMs', signal)
      yield* eventsOf(parts, streams.length, after)
    },
    async awaitChanges({ capture, after, streams, waitMs, signal }) {
      const asked = { method: 'changes.await', capture, after, streams, waitMs } as const
      const [news] = await partsOf(call(asked, 'readMs', signal))
      return believed(() => checkedNews(news, after))
    },
    async ack({ capture, position, signal }) {
      await partsOf(call({ method: 'changes.ack', capture, position }, 'callMs', signal))
    },
    async health({ capture, saved, signal }) {
      const [health] = await partsOf(call({ method: 'changes.health', capture, saved }, 'callMs', signal))
      return believed(() => checkedHealth(health))
    },
    async release({ capture, signal }) {
      await partsOf(call({ method: 'changes.release', capture }, 'callMs', signal))
    },
  }
}

/** Rows come as they are, with how many they are after them; each event of rows tells one of both. */
async function* eventsOf(
  parts: AsyncIterable<Part>,
  streams: number,
  after: ChangePosition,
): AsyncGenerator<ChangeEvent> {
  let stream: number | null = null
  let last = after
  for await (const part of parts) {
    if (part.type === 'csv') {
      yield { kind: 'rows', stream: believed(() => known(stream)), chunk: part.bytes, rows: 0 }
      continue
    }
    const said = believed(() => checkedChange(partOf(part), streams))
    if (said.kind === 'stream') stream = said.stream
    else if (said.kind === 'count') {
      yield { kind: 'rows', stream: believed(() => known(stream)), chunk: NO_ROWS, rows: said.rows }
    } else {
      if (said.kind === 'checkpoint') last = believed(() => onward(last, said.position))
      yield said
    }
  }
}

function onward(last: ChangePosition, next: ChangePosition): ChangePosition {
  if (next.lineage === last.lineage && next.order >= last.order) return next
  throw new BrokenAnswer('a log that goes back')
}

function known(stream: number | null): number {
  if (stream === null) throw new BrokenAnswer('rows of no stream')
  return stream
}

function refusalsOf(parts: readonly unknown[], streams: number): readonly RefusedStream[] {
  if (parts.length > streams) throw new BrokenAnswer('more refusals than tables')
  return parts.map(checkedRefusal)
}

/** A connection has no more tables than these. */
const MAX_PARTS = 100_000

async function partsOf(parts: AsyncIterable<Part>): Promise<readonly unknown[]> {
  const all: unknown[] = []
  for await (const part of parts) {
    all.push(believed(() => partOf(part)))
    if (all.length > MAX_PARTS) throw lineFailure(new BrokenAnswer('more was said than was asked for'))
  }
  return all
}

function partOf(part: Part): unknown {
  if (part.type === 'part') return part.part
  throw new BrokenAnswer('rows that nobody asked for')
}

function believed<T>(check: () => T): T {
  try {
    return check()
  } catch (error) {
    throw lineFailure(error)
  }
}
