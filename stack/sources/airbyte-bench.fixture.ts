/** Programs of the protocol behind the walls of a reader, without a runtime: what a connection would meet. */
import { chmod, copyFile, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Connector, ConnectorPlugin, ReadEvent, ReadRequest } from '@sluice/sdk'
import plugin from '../../plugins/connectors/airbyte/index.ts'
import { createNetworkPolicy } from '../../runtime/src/ingestion/network.ts'
import { type AllowedProgram, ProgramRules } from '../../runtime/src/ingestion/programs/program-rules.ts'
import { SourceReaders } from '../../runtime/src/ingestion/source-readers.ts'

const MODULE = new URL('../../plugins/connectors/airbyte/index.ts', import.meta.url).href
const LONG_MS = 600_000
const MB = 1024 * 1024
export const PYTHON = '/usr/bin/python3'

/** A folder that others may read, with the program that does as it is told. */
export async function fakeFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-airbyte-'))
  await chmod(folder, 0o755)
  const file = join(folder, 'fake.py')
  await copyFile(new URL('./airbyte_fake.py', import.meta.url), file)
  await chmod(file, 0o644)
  return folder
}

export const fakeProgram = (folder: string): AllowedProgram => ({
  command: [PYTHON, join(folder, 'fake.py')],
  arguments: [],
  folders: [folder],
  memory_mb: 256,
})

export class Bench {
  readonly #readers: SourceReaders
  readonly #plugin: ConnectorPlugin
  readonly logged: string[] = []

  constructor(programs: Readonly<Record<string, AllowedProgram>>) {
    this.#readers = new SourceReaders({
      maxReaders: 3,
      memoryBytes: 256 * MB,
      silenceMs: LONG_MS,
      callMs: LONG_MS,
      readMs: LONG_MS,
      privateFolders: [],
      programs: new ProgramRules({ airbyte: programs }, []),
    })
    this.#plugin = this.#readers.wall(plugin as ConnectorPlugin, MODULE)
  }

  open(program: string, config: object, tenant = 'acme', silenceS = 300): Promise<Connector> {
    const log = (...said: readonly unknown[]) => void this.logged.push(JSON.stringify(said))
    const host = {
      logger: { debug: log, info: log, warn: log, error: log },
      metrics: { count: () => undefined, observe: () => undefined },
      clock: { nowMs: () => Date.now(), every: () => () => undefined },
      randomBytes: (count: number) => new Uint8Array(count),
      faultPoint: async () => undefined,
      network: createNetworkPolicy({
        allow: [],
        allowLoopback: true,
        allowCleartextPasswords: false,
        ownEndpoints: () => [],
      }),
      tenant,
    }
    return this.#plugin.open({ program, config: JSON.stringify(config), silence_s: silenceS }, host)
  }

  close(): Promise<void> {
    return this.#readers.close()
  }
}

export interface Read {
  readonly lines: readonly string[]
  readonly rejects: readonly Extract<ReadEvent, { kind: 'reject' }>[]
  readonly state: Extract<ReadEvent, { kind: 'state' }>
}

export async function readAll(connector: Connector, table: string, change: Partial<ReadRequest> = {}): Promise<Read> {
  const request: ReadRequest = {
    ...{ schema: 'airbyte', table, mode: 'full', columns: [], primaryKey: [], cursorColumn: null, state: null },
    signal: new AbortController().signal,
    ...change,
  }
  let csv = ''
  const rejects: Extract<ReadEvent, { kind: 'reject' }>[] = []
  let state: Extract<ReadEvent, { kind: 'state' }> | null = null
  for await (const event of connector.read(request)) {
    if (event.kind === 'csv') csv += Buffer.from(event.chunk as Uint8Array).toString('utf8')
    else if (event.kind === 'reject') rejects.push(event)
    else if (event.kind === 'state') state = event
  }
  if (state === null) throw new Error('the read ended without a state')
  return { lines: csv === '' ? [] : csv.trimEnd().split('\n'), rejects, state }
}

export const remove = (folder: string) => rm(folder, { recursive: true, force: true })
