import { setTimeout as sleep } from 'node:timers/promises'
import { type AwaitRequest, type ChangeNews, type ChangeSource, type Connector, SluiceError } from '@sluice/sdk'
import type { ChangeCall } from '../source-protocol.ts'
import type { ParentLine } from './parent-line.ts'
import { RowBuffer } from './row-buffer.ts'

/** Answers a call of a connector's log. */
export async function serveChanges(
  call: ChangeCall,
  connector: Connector,
  line: ParentLine,
  signal: AbortSignal,
): Promise<void> {
  const { changes: source } = connector
  if (source === undefined) throw noLog()
  switch (call.method) {
    case 'changes.judges':
      return line.tell({ kind: 'part', part: source.refusals !== undefined })
    case 'changes.refusals': {
      const { method: _, ...asked } = call
      const refused = (await source.refusals?.({ ...asked, signal })) ?? []
      for (const part of refused) await line.tell({ kind: 'part', part })
      return
    }
    case 'changes.prepare': {
      const { capture, streams, anew } = call
      const { position, refused, incarnations = [] } = await source.prepare({ capture, streams, anew, signal })
      await line.tell({ kind: 'part', part: position })
      // One by one: a frame is bounded, a list of tables is not.
      for (const part of [...refused, ...incarnations]) await line.tell({ kind: 'part', part })
      return
    }
    case 'changes.read':
      return readChanges(call, source, line, signal)
    case 'changes.await': {
      const { capture, after, streams, waitMs } = call
      const request = { capture, after, streams, waitMs, signal }
      const part = await (source.awaitChanges?.(request) ?? lookForChanges(source, request))
      return line.tell({ kind: 'part', part })
    }
    case 'changes.ack':
      return source.ack({ capture: call.capture, position: call.position, signal })
    case 'changes.health':
      return line.tell({
        kind: 'part',
        part: await source.health({ capture: call.capture, saved: call.saved, signal }),
      })
    case 'changes.release':
      return source.release({ capture: call.capture, signal })
  }
}

/** Between two readings of a log that nobody can wait for. */
const LOOK_EVERY_MS = 2_000

/** Reads as far as the first change, which is left to whoever reads it. */
async function lookForChanges(source: ChangeSource, { waitMs, ...request }: AwaitRequest): Promise<ChangeNews> {
  const endMs = performance.now() + waitMs
  let position = request.after
  for (;;) {
    for await (const event of source.changes({ ...request, after: position })) {
      if (event.kind !== 'checkpoint') return { kind: 'changed' }
      position = event.position
    }
    if (performance.now() + LOOK_EVERY_MS > endMs) return { kind: 'quiet', position }
    await sleep(LOOK_EVERY_MS, undefined, { signal: request.signal })
  }
}

/** Rows travel as bytes alone; whose they are is said before them, and how many they were after them. */
async function readChanges(
  { capture, after, streams }: Extract<ChangeCall, { method: 'changes.read' }>,
  source: ChangeSource,
  line: ParentLine,
  signal: AbortSignal,
): Promise<void> {
  const buffer = new RowBuffer((csv) => line.sayRows(csv, null))
  let stream: number | null = null
  let rows = 0
  const endRows = () => {
    buffer.flush()
    if (rows > 0) line.say({ kind: 'part', part: { kind: 'count', rows } })
    rows = 0
  }
  try {
    for await (const event of source.changes({ capture, after, streams, signal })) {
      signal.throwIfAborted()
      if (event.kind === 'rows') {
        if (event.stream !== stream) {
          endRows()
          stream = event.stream
          line.say({ kind: 'part', part: { kind: 'stream', stream } })
        }
        rows += event.rows
        if (buffer.add(event.chunk)) await line.drained()
        continue
      }
      endRows()
      await line.tell({ kind: 'part', part: event })
    }
    endRows()
  } finally {
    buffer.drop()
  }
}

function noLog(): SluiceError {
  return new SluiceError('CONFIG', 'the connector reads no log of changes', {
    code: 'changes_not_supported',
    remedy: 'Use mode incremental or full in inputs.yaml.',
  })
}
