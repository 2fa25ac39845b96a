import { closeSync } from 'node:fs'
import { type Libc, loadLibc } from './libc.ts'

/**
 * A real pipe. Node's own `stdio: 'pipe'` is a socket pair, which cannot be opened by name, and DuckDB opens its
 * inputs and outputs by name.
 */
export interface Pipe {
  readonly readFd: number
  readonly writeFd: number
}

export type OpenPipe = () => Pipe

const F_SETFD = 2
const FD_CLOEXEC = 1

export function pipeOpener(): OpenPipe {
  const libc = loadLibc()
  return process.platform === 'linux' ? linuxPipe(libc) : posixPipe(libc)
}

function linuxPipe(libc: Libc): OpenPipe {
  const pipe2 = libc.func('int pipe2(_Out_ int *descriptors, int flags)')
  const closeOnExec = 0o2000000
  return () => made(libc, (descriptors) => pipe2(descriptors, closeOnExec))
}

function posixPipe(libc: Libc): OpenPipe {
  const pipe = libc.func('int pipe(_Out_ int *descriptors)')
  const fcntl = libc.func('int fcntl(int descriptor, int command, int value)')
  return () => {
    const both = made(libc, (descriptors) => pipe(descriptors))
    fcntl(both.readFd, F_SETFD, FD_CLOEXEC)
    fcntl(both.writeFd, F_SETFD, FD_CLOEXEC)
    return both
  }
}

function made(libc: Libc, call: (descriptors: [number, number]) => number | bigint): Pipe {
  const descriptors: [number, number] = [-1, -1]
  if (Number(call(descriptors)) !== 0) throw new Error(`no pipe could be made: errno ${libc.errno()}`)
  return { readFd: descriptors[0], writeFd: descriptors[1] }
}

export function closeQuietly(descriptor: number): void {
  try {
    closeSync(descriptor)
  } catch {
    // Closed already; there is nothing left to release.
  }
}
