/** The steps of a check up to a server that is spoken to. */
import { connect, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { type CheckStep, isSluiceError, type NetworkPolicy } from '@sluice/sdk'
import { stopIfAborted } from '../files/failure.ts'
import type { BucketPlace } from './settings.ts'

const CONNECT_MS = 10_000

/** The name that the bucket is asked for by. */
export function hostOf({ host, pathStyle, bucket }: BucketPlace): string {
  return pathStyle ? host : `${bucket}.${host}`
}

export async function reach(
  place: BucketPlace,
  network: NetworkPolicy,
  signal: AbortSignal,
): Promise<readonly CheckStep[]> {
  const { port, isTls } = place
  const name = hostOf(place)
  const steps: CheckStep[] = []
  const step = async <T>(
    what: CheckStep['name'],
    done: string,
    failed: string,
    remedy: string,
    run: () => Promise<T>,
  ) => {
    stopIfAborted(signal)
    try {
      const value = await run()
      steps.push({ name: what, ok: true, message: done })
      return value
    } catch (error) {
      stopIfAborted(signal)
      const told = isSluiceError(error)
        ? { message: error.message, remedy: error.remedy ?? remedy }
        : { message: failed, remedy }
      steps.push({ name: what, ok: false, ...told })
      return null
    }
  }
  const found = await step(
    'dns',
    'the host resolves, and connections to it are allowed',
    'the host cannot be resolved',
    'Correct endpoint.',
    () => network.resolve(name, port, signal),
  )
  if (found === null) return steps
  const { address } = found
  const opened = await step(
    'tcp',
    'the port accepts connections',
    'the port accepts no connection',
    'Correct endpoint, or start the server.',
    () => greeted(connect({ host: address, port }), 'connect', signal),
  )
  if (opened === null || !isTls) return steps
  await step(
    'tls',
    'the certificate is trusted',
    'the certificate is not trusted',
    'Correct endpoint, or let the operator name its authority in NODE_EXTRA_CA_CERTS.',
    () => greeted(connectTls({ host: address, port, servername: name }), 'secureConnect', signal),
  )
  return steps
}

/** Waits for it, and hangs up. */
async function greeted(socket: Socket, event: string, signal: AbortSignal): Promise<true> {
  const until = AbortSignal.any([signal, AbortSignal.timeout(CONNECT_MS)])
  const stop = () => socket.destroy(new Error('it took too long'))
  try {
    until.addEventListener('abort', stop, { once: true })
    await new Promise<void>((resolve, reject) => {
      socket.once(event, () => resolve()).on('error', reject)
      socket.once('close', () => reject(new Error('closed')))
    })
    return true
  } finally {
    until.removeEventListener('abort', stop)
    socket.destroy()
  }
}
