import { randomBytes } from 'node:crypto'
import type { DescriptorLine } from '@sluice/engine/descriptors'
import { type Native, shutIn } from '@sluice/engine/shut-in'
import { requireWalls } from '@sluice/engine/walls'
import { type Connector, type ConnectorHost, type ConnectorState, SluiceError } from '@sluice/sdk'
import { createClock } from '../../plugins/host.ts'
import { encodeBatch } from '../encode-batch.ts'
import type { OpenMessage, ResolvedAddress, SourceCall, WireReadRequest } from '../source-protocol.ts'
import type { ConnectorModules } from './connector-modules.ts'
import { type ParentLine, toWire } from './parent-line.ts'
import { ChildPrograms } from './programs.ts'
import { RowBuffer } from './row-buffer.ts'
import { serveChanges } from './serve-changes.ts'

/** What the kernel may give on top of what is watched; the watch ends the process long before. */
const MEMORY_HEADROOM_BYTES = 256 * 1024 * 1024

export interface Machine {
  readonly native: Native | null
  readonly keepsRing: boolean
  /** Null where nothing can be handed over. */
  readonly descriptors: DescriptorLine | null
}

/** Opens the connector that it is told to, behind walls, and answers calls one by one. */
export function serveSource(line: ParentLine, modules: ConnectorModules, machine: Machine): void {
  let opening: Promise<Connector> | null = null
  let running: AbortController | null = null
  const host = hostOver(line)
  const programs = machine.descriptors === null ? null : new ChildPrograms(line, machine.descriptors, host.network)
  line.onMessage((message) => {
    if (message.kind === 'open') {
      opening = open(message, line, modules, machine, programs === null ? host : { ...host, programs })
      // Told by the call that waits for it.
      opening.catch(() => undefined)
    } else if (message.kind === 'abort') {
      running?.abort(stopped())
    } else if (message.kind === 'knock') {
      programs?.knock(message.program)
    } else if (message.kind === 'call' && opening !== null) {
      const own = new AbortController()
      running = own
      void answer(message.call, opening, line, own.signal)
    }
  })
}

async function open(
  { module, settings, memoryBytes, userId, neededWalls, codeFolders, readFolders }: OpenMessage,
  line: ParentLine,
  modules: ConnectorModules,
  { native, keepsRing }: Machine,
  host: ConnectorHost,
): Promise<Connector> {
  const plugin = await modules.load(module)
  const walls = await shutIn(
    {
      open: { files: [], readTrees: [...codeFolders, ...readFolders], writeTrees: [] },
      userId,
      pipes: [],
      moreBytes: memoryBytes + MEMORY_HEADROOM_BYTES,
      refused: ['sendto', 'sendmsg', 'sendmmsg'],
      keepsRing,
    },
    native,
  )
  line.say({ kind: 'walls', walls })
  requireWalls(walls, neededWalls)
  return plugin.open(settings, host)
}

async function answer(
  call: SourceCall,
  opening: Promise<Connector>,
  line: ParentLine,
  signal: AbortSignal,
): Promise<void> {
  try {
    const next = await run(call, await opening, line, signal)
    line.say({ kind: 'done', next })
  } catch (error) {
    line.say({ kind: 'failed', error: toWire(error) })
  }
}

async function run(
  call: SourceCall,
  connector: Connector,
  line: ParentLine,
  signal: AbortSignal,
): Promise<string | null> {
  switch (call.method) {
    case 'check':
      await line.tell({ kind: 'part', part: await connector.check(signal) })
      return null
    case 'discover': {
      const { tables, next } = await connector.discover({ after: call.after, limit: call.limit }, signal)
      // One by one: a frame is bounded, a page is not.
      for (const part of tables) await line.tell({ kind: 'part', part })
      return next
    }
    case 'read':
      await read(call.request, connector, line, signal)
      return null
    case 'ack':
      await connector.ack({ schema: call.schema, table: call.table }, call.state as ConnectorState)
      return null
    case 'close':
      await connector.close()
      return null
    default:
      await serveChanges(call, connector, line, signal)
      return null
  }
}

async function read(
  request: WireReadRequest,
  connector: Connector,
  line: ParentLine,
  signal: AbortSignal,
): Promise<void> {
  const rows = new RowBuffer((csv) => line.sayRows(csv, null))
  try {
    for await (const event of connector.read({ ...request, signal })) {
      signal.throwIfAborted()
      if (event.kind === 'csv') {
        if (rows.add(event.chunk)) await line.drained()
        continue
      }
      // In the order in which it was read.
      rows.flush()
      if (event.kind === 'batch') line.sayRows(encodeBatch(event.batch), event.batch.rowCount)
      else line.say({ kind: 'part', part: event })
      await line.drained()
    }
    rows.flush()
  } finally {
    // The next call's answer must not begin with what is left of this one's.
    rows.drop()
  }
}

function hostOver(line: ParentLine): ConnectorHost {
  const log = (level: string) => (message: string, fields?: Readonly<Record<string, unknown>>) =>
    line.say({ kind: 'log', level, message, fields: fields ?? {} })
  const logger = { debug: log('debug'), info: log('info'), warn: log('warn'), error: log('error') }
  const metric = (type: string) => (name: string, value?: number, labels?: Readonly<Record<string, string>>) =>
    line.say({ kind: 'metric', type, name, value: value ?? 1, labels: labels ?? {} })
  const cleartext = new Set<string>()
  return {
    logger,
    metrics: { count: metric('count'), observe: metric('observe') },
    clock: createClock(logger),
    randomBytes: (count) => randomBytes(count),
    faultPoint: async (name) => {
      await line.ask({ what: 'fault-point', name })
    },
    network: {
      resolve: async (host, port, signal) => {
        signal.throwIfAborted()
        const found = (await line.ask({ what: 'resolve', host, port })) as ResolvedAddress
        if (found.allowsCleartextPassword) cleartext.add(found.address)
        return { address: found.address, family: found.family }
      },
      allowsCleartextPassword: (address) => cleartext.has(address),
    },
  }
}

function stopped(): SluiceError {
  return new SluiceError('TRANSIENT', 'the read of the source was stopped', {
    code: 'aborted',
    remedy: 'Nothing is wrong with the source: start it again.',
  })
}
