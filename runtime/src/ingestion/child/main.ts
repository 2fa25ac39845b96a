import { Socket } from 'node:net'
import { getCACertificates } from 'node:tls'
import { DescriptorLine } from '@sluice/engine/descriptors'
import { leaveRing } from '@sluice/engine/event-loop'
import { openNative } from '@sluice/engine/shut-in'
import { leaveSignalsToParent } from '@sluice/engine/signals'
import { CHANNEL_FD, FrameReader, type ToSourceChild } from '../source-protocol.ts'
import { ConnectorModules } from './connector-modules.ts'
import { ParentLine } from './parent-line.ts'
import { serveSource } from './serve.ts'
import { lendSockets } from './sockets.ts'

/** The child's life: load the connector that it will likely be asked for, shut itself in, open one, answer calls, be ended. */

/** Not by leaving in order, for which Node asks the kernel for what the walls refuse. */
const end = () => process.kill(process.pid, 'SIGKILL')

leaveSignalsToParent()
process.umask(0o077)
const native = openNative()
const hasLeftRing = native === null || (await leaveRing(native.libc))
const channel = new Socket({ fd: CHANNEL_FD, readable: true, writable: true })
const line = new ParentLine(channel)
// The parent is gone, and with it whoever wants an answer.
channel.on('close', () => end())
channel.on('error', () => end())
process.on('uncaughtException', (error) => line.breakOff(error))
process.on('unhandledRejection', (error) => line.breakOff(error))

const descriptors = native === null ? null : new DescriptorLine(native.libc)
if (descriptors) lendSockets(line, descriptors)
const modules = new ConnectorModules()
for (const url of process.argv.slice(2)) await modules.load(url)
// The operator's own authorities lie in a file, which is out of reach soon.
if (process.env['NODE_EXTRA_CA_CERTS'] !== undefined) getCACertificates('extra')
// What the environment held has been used.
for (const name of Object.keys(process.env)) delete process.env[name]
serveSource(line, modules, { native, keepsRing: !hasLeftRing, descriptors })
const reader = new FrameReader(Number.POSITIVE_INFINITY)
channel.on('data', (chunk: Buffer) => {
  for (const frame of reader.take(chunk)) if (frame.type === 'json') line.receive(frame.value as ToSourceChild)
})
line.say({ kind: 'ready' })
