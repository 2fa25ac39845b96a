import dns from 'node:dns'
import dnsPromises from 'node:dns/promises'
import { closeSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import type { DescriptorLine } from '@sluice/engine/descriptors'
import { DESCRIPTOR_FD, type ResolvedAddress } from '../source-protocol.ts'
import type { ParentLine } from './parent-line.ts'

/**
 * Connectors use Node's sockets as ever: below them, what would connect is handed a socket that the parent has
 * connected, where the connection's owner may go, and names are looked up by the parent.
 */

/** Node's own handle of a TCP socket. */
interface TcpHandle {
  connect(request: ConnectRequest, address: string, port: number): number
  connect6(request: ConnectRequest, address: string, port: number): number
  open(descriptor: number): number
}

interface ConnectRequest {
  oncomplete(status: number, handle: TcpHandle, request: ConnectRequest, readable: boolean, writable: boolean): void
}

/** EACCES of Linux: what a socket answers that may not go there. */
const NOT_ALLOWED = -13
/** A name may be looked up without a port; policies know addresses and ports. */
const ANY_PORT = 443

export function lendSockets(line: ParentLine, descriptors: DescriptorLine): void {
  const { TCP } = (process as unknown as { binding(name: string): { TCP: { prototype: TcpHandle } } }).binding(
    'tcp_wrap',
  )
  const connect = function (this: TcpHandle, request: ConnectRequest, address: string, port: number): number {
    void borrow(this, line, descriptors, address, port).then((status) => {
      request.oncomplete(status, this, request, status === 0, status === 0)
    })
    return 0
  }
  TCP.prototype.connect = connect
  TCP.prototype.connect6 = connect
  const lookUp = async (host: string): Promise<ResolvedAddress> =>
    (await line.ask({ what: 'resolve', host, port: ANY_PORT })) as ResolvedAddress
  Object.assign(dns, { lookup: lookup(lookUp) })
  Object.assign(dnsPromises, {
    lookup: async (host: string, options?: { readonly all?: boolean }) => {
      const { address, family } = await lookUp(host)
      return options?.all === true ? [{ address, family }] : { address, family }
    },
  })
  syncBuiltinESMExports()
}

/** Gives 0, or an error number. */
async function borrow(
  handle: TcpHandle,
  line: ParentLine,
  descriptors: DescriptorLine,
  address: string,
  port: number,
): Promise<number> {
  try {
    const status = (await line.ask({ what: 'connect', address, port })) as number
    if (status !== 0) return status
    const descriptor = descriptors.receive(DESCRIPTOR_FD)
    const opened = handle.open(descriptor)
    if (opened !== 0) closeSync(descriptor)
    return opened
  } catch {
    return NOT_ALLOWED
  }
}

type LookupCallback = (error: Error | null, ...found: readonly unknown[]) => void

function lookup(lookUp: (host: string) => Promise<ResolvedAddress>) {
  return (host: string, ...rest: readonly unknown[]): void => {
    const callback = rest.at(-1) as LookupCallback
    const options = rest.length > 1 ? (rest[0] as { readonly all?: boolean } | number) : {}
    const wantsAll = typeof options === 'object' && options?.all === true
    lookUp(host).then(
      ({ address, family }) => {
        if (wantsAll) callback(null, [{ address, family }])
        else callback(null, address, family)
      },
      (error: Error) => callback(error),
    )
  }
}
