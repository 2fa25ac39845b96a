/**
 * A program's only way out: a proxy of HTTP (RFC 9110, CONNECT and absolute targets). Each target is resolved, judged and connected
 * by the runtime, as whatever a connector opens; what goes through afterwards is nobody's business here.
 */
import { closeSync } from 'node:fs'
import { connect, isIP, Socket } from 'node:net'
import type { DescriptorLine } from '@sluice/engine/descriptors'
import { isSluiceError, type NetworkPolicy } from '@sluice/sdk'

const MAX_OPEN = 32
const MAX_HEAD_BYTES = 64 * 1024
const HEAD_MS = 30_000
const IDLE_MS = 600_000
const CONNECT_MS = 60_000
const END_OF_HEAD = '\r\n\r\n'
/** Names of headers that are between two neighbours. */
const OF_THE_HOP = /^(proxy-[a-z-]+|connection|keep-alive|te|upgrade)$/i

interface Target {
  readonly host: string
  readonly port: number
  /** What is said to the server before everything else; null: nothing is, and the program is told that it may speak. */
  readonly head: string | null
}

export class Gate {
  readonly #descriptors: DescriptorLine
  readonly #descriptor: number
  readonly #network: NetworkPolicy
  readonly #open = new Set<Socket>()
  readonly #closed = new AbortController()
  hasRefused = false

  constructor(descriptors: DescriptorLine, descriptor: number, network: NetworkPolicy) {
    this.#descriptors = descriptors
    this.#descriptor = descriptor
    this.#network = network
  }

  /** A connection of the program lies in the line. */
  knock(): void {
    if (this.#closed.signal.aborted) return
    let descriptor: number
    try {
      descriptor = this.#descriptors.receive(this.#descriptor)
    } catch {
      return
    }
    if (this.#open.size >= MAX_OPEN) {
      closeSync(descriptor)
      return
    }
    void this.#serve(this.#known(new Socket({ fd: descriptor, readable: true, writable: true })))
  }

  close(): void {
    if (this.#closed.signal.aborted) return
    this.#closed.abort()
    for (const socket of this.#open) socket.destroy()
    closeSync(this.#descriptor)
  }

  #known(socket: Socket): Socket {
    this.#open.add(socket)
    socket.on('close', () => this.#open.delete(socket))
    socket.on('error', () => socket.destroy())
    return socket
  }

  async #serve(near: Socket): Promise<void> {
    try {
      const { head, rest } = await headOf(near)
      const target = targetOf(head)
      if (target === null) return refuse(near, '400 Bad Request')
      const far = await this.#reach(target, near)
      if (far === null) return
      near.setTimeout(IDLE_MS, () => near.destroy())
      if (target.head === null) near.write('HTTP/1.1 200 Connection Established\r\n\r\n')
      else far.write(target.head, 'latin1')
      if (rest.length > 0) far.write(rest)
      near.pipe(far)
      far.pipe(near)
      near.on('close', () => far.destroy())
      far.on('close', () => near.end())
    } catch {
      near.destroy()
    }
  }

  /** Null where it may not be reached, or does not answer, which the program has been told. */
  async #reach({ host, port }: Target, near: Socket): Promise<Socket | null> {
    try {
      const { address, family } = await this.#network.resolve(host, port, this.#closed.signal)
      const far = this.#far(connect({ host: address, port, family }), near)
      await connected(far)
      return far
    } catch (error) {
      const isRefused = isSluiceError(error, 'PERMISSION')
      if (isRefused) this.hasRefused = true
      refuse(near, isRefused ? '403 Forbidden' : '502 Bad Gateway')
      return null
    }
  }

  /** Not among those that the program has opened, and gone with the one that it belongs to. */
  #far(far: Socket, near: Socket): Socket {
    far.on('error', () => far.destroy())
    near.on('close', () => far.destroy())
    return far
  }
}

function refuse(near: Socket, status: string): void {
  near.end(`HTTP/1.1 ${status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`)
}

function connected(far: Socket): Promise<void> {
  return new Promise((resolve, reject) => {
    far.setTimeout(CONNECT_MS, () => far.destroy(new Error('it took too long')))
    far.once('connect', () => {
      far.setTimeout(0)
      resolve()
    })
    far.once('error', reject)
    far.once('close', () => reject(new Error('closed')))
  })
}

function headOf(near: Socket): Promise<{ readonly head: string; readonly rest: Buffer }> {
  return new Promise((resolve, reject) => {
    let bytes = Buffer.alloc(0)
    const late = setTimeout(() => over(new Error('it took too long')), HEAD_MS)
    const over = (error: Error | null) => {
      clearTimeout(late)
      near.off('data', take)
      near.pause()
      if (error !== null) reject(error)
    }
    const take = (chunk: Buffer) => {
      bytes = Buffer.concat([bytes, chunk])
      const end = bytes.indexOf(END_OF_HEAD)
      if (end < 0) {
        if (bytes.length > MAX_HEAD_BYTES) over(new Error('a head that is too long'))
        return
      }
      over(null)
      resolve({ head: bytes.toString('latin1', 0, end), rest: bytes.subarray(end + END_OF_HEAD.length) })
    }
    near.on('data', take)
    near.once('close', () => over(new Error('closed')))
  })
}

function targetOf(head: string): Target | null {
  const [line = '', ...headers] = head.split('\r\n')
  const [method = '', target = '', version = ''] = line.split(' ')
  if (!/^[A-Z]{1,20}$/.test(method) || !/^HTTP\/1\.[01]$/.test(version)) return null
  if (method === 'CONNECT') {
    const place = placeOf(target)
    return place === null ? null : { ...place, head: null }
  }
  const url = URL.canParse(target) ? new URL(target) : null
  if (url === null || url.protocol !== 'http:' || url.username !== '') return null
  const place = placeOf(`${url.hostname}:${url.port === '' ? 80 : url.port}`)
  if (place === null) return null
  // One request a connection: the next may be for another place.
  const kept = headers.filter((header) => !OF_THE_HOP.test(header.slice(0, header.indexOf(':'))))
  const said = [`${method} ${url.pathname}${url.search} HTTP/1.1`, ...kept, 'Connection: close']
  return { ...place, head: `${said.join('\r\n')}${END_OF_HEAD}` }
}

function placeOf(text: string): { readonly host: string; readonly port: number } | null {
  const match = /^(?:\[([\da-f:.]{2,45})\]|([a-z\d._-]{1,253})):(\d{1,5})$/i.exec(text)
  const host = match?.[1] ?? match?.[2] ?? ''
  const port = Number(match?.[3])
  if (match === null || port < 1 || port > 65_535) return null
  if (match[1] !== undefined && isIP(match[1]) !== 6) return null
  return { host, port }
}
