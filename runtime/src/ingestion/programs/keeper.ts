/**
 * Keeps the room of one program, as the first of its processes: makes the room's folder and its one way out, starts the
 * program, counts what it takes, and ends with it, and with it all that it has started. What the program says never comes here.
 */
import { spawn } from 'node:child_process'
import { chownSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer, Socket } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { DescriptorLine } from '@sluice/engine/descriptors'
import { loadLibc } from '@sluice/engine/libc'
import { furnishRoom, PROGRAM_FOLDER } from '@sluice/engine/program-walls'
import { CONTROL_FD, type FromKeeper, GATE_FD, type KeepMessage } from './keeper-protocol.ts'

const LOOK_EVERY_MS = 100
const TICKS_PER_S = 100
const ENTRY = fileURLToPath(new URL(import.meta.url.endsWith('.ts') ? './enter.ts' : './enter.js', import.meta.url))

process.umask(0o077)
const libc = loadLibc()
const control = new Socket({ fd: CONTROL_FD, readable: true, writable: true })
const end = () => process.kill(process.pid, 'SIGKILL')
// Nobody is there any more who wants what the program reads.
control.on('close', () => process.exit(0))
control.on('error', () => process.exit(0))

const say = (message: FromKeeper, then?: () => void) => control.write(`${JSON.stringify(message)}\n`, then)

/** The first reason is the one that is told. */
let isEnding = false
function finish(how: 'exited' | 'killed' | 'memory' | 'processes', code: number | null): void {
  if (isEnding) return
  isEnding = true
  look()
  say({ kind: 'ended', how, code }, () => process.exit(0))
}

const message = await firstLine()
const { userId, memoryBytes, processes } = message
furnishRoom(libc, message.folderBytes, userId)
const paths = new Map<string, string>()
for (const [name, text] of Object.entries(message.files)) {
  const path = join(PROGRAM_FOLDER, name)
  writeFileSync(path, text, { mode: 0o600, flag: 'wx' })
  if (userId !== null) chownSync(path, userId, userId)
  paths.set(name, path)
}

const gate = new DescriptorLine(libc)
const server = createServer({ pauseOnConnect: true }, (socket) => {
  socket.on('error', () => {})
  try {
    gate.send(GATE_FD, (socket as unknown as { _handle: { fd: number } })._handle.fd)
    say({ kind: 'knock' })
  } catch {
    // Whoever is to let it out is not keeping up: it is turned away.
  }
  // The other end has a descriptor of its own by now: the connection stays.
  socket.destroy()
})
await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
const { port } = server.address() as { readonly port: number }

const proxy = `http://127.0.0.1:${port}`
const start = {
  command: [
    ...message.command,
    ...message.words.map((word) => (typeof word === 'string' ? word : paths.get(word.file))),
  ],
  environment: {
    PATH: '/usr/bin:/bin',
    HOME: PROGRAM_FOLDER,
    TMPDIR: PROGRAM_FOLDER,
    LANG: 'C.UTF-8',
    PYTHONDONTWRITEBYTECODE: '1',
    // A pool of threads for each library takes more than it gives.
    OMP_NUM_THREADS: '1',
    OPENBLAS_NUM_THREADS: '1',
    ...Object.fromEntries(['http_proxy', 'https_proxy', 'HTTP_PROXY', 'HTTPS_PROXY'].map((name) => [name, proxy])),
  },
  userId,
  runTrees: message.runTrees,
  files: message.readFiles,
  port,
  memoryBytes,
  fileBytes: message.folderBytes,
  openFiles: message.openFiles,
  processes,
}
const program = spawn(process.execPath, ['--no-warnings', '--single-threaded', ENTRY, JSON.stringify(start)], {
  cwd: '/',
  env: {},
  stdio: ['ignore', 1, 'ignore'],
})
program.once('error', () => finish('killed', null))
program.once('exit', (code) => finish(code === null ? 'killed' : 'exited', code))
say({ kind: 'started' })
setInterval(look, LOOK_EVERY_MS)

/** Of those that have ended, by what their parents have gathered: it never falls below what was told. */
let toldS = 0

function look(): void {
  let bytes = 0
  let ticks = 0
  let count = 0
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name) || name === '1') continue
    try {
      const status = readFileSync(`/proc/${name}/status`, 'latin1')
      bytes += kilobytes(status, 'RssAnon') + kilobytes(status, 'RssShmem') + kilobytes(status, 'VmSwap')
      const stat = readFileSync(`/proc/${name}/stat`, 'latin1')
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
      for (const at of [11, 12, 13, 14]) ticks += Number(fields[at])
      count += Number(fields[17])
    } catch {
      // It has just ended.
    }
  }
  const seconds = ticks / TICKS_PER_S
  if (seconds > toldS) {
    say({ kind: 'cpu', seconds: seconds - toldS })
    toldS = seconds
  }
  if (bytes > memoryBytes) finish('memory', null)
  else if (count > processes) finish('processes', null)
}

function kilobytes(status: string, field: string): number {
  return Number(new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(status)?.[1] ?? 0) * 1024
}

function firstLine(): Promise<KeepMessage> {
  return new Promise((resolve) => {
    let text = ''
    control.on('data', (chunk: Buffer) => {
      text += chunk.toString('latin1')
      const at = text.indexOf('\n')
      if (at >= 0) resolve(JSON.parse(Buffer.from(text.slice(0, at), 'latin1').toString('utf8')) as KeepMessage)
    })
  })
}

process.on('uncaughtException', end)
