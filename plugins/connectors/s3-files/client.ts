/** The driver, on sockets that go where the host says that the connection may. */
import http from 'node:http'
import https from 'node:https'
import type { LookupFunction } from 'node:net'
import { CheckedClient } from '@sluice/object-store/s3/checked-client'
import type { NetworkPolicy } from '@sluice/sdk'
import type { BucketPlace } from './settings.ts'

export type S3Reader = Pick<CheckedClient, 'getObject' | 'getPartialObject' | 'listObjectsV2Query'>

const SILENCE_MS = 60_000

/** For one question: its requests end with the signal. Sockets are not kept, so that none is left. */
export function clientOf(place: BucketPlace, network: NetworkPolicy, signal: AbortSignal): S3Reader {
  const driver = place.isTls ? https : http
  const lookup = lookupBy(network, place.port, signal)
  const request = ((options: http.RequestOptions, answered: (response: http.IncomingMessage) => void) => {
    const asked = driver.request({ ...options, agent: false, lookup, signal }, answered)
    // Without a listener neither an answer nor an error follows on it, nor does the signal end it.
    asked.once('upgrade', (_, socket) => {
      socket.destroy()
      asked.emit('error', new Error('the server asks for another protocol'))
    })
    return asked.setTimeout(SILENCE_MS, () => asked.destroy(new Error('the server said nothing for too long')))
  }) as typeof http.request
  return new CheckedClient({
    endPoint: place.host,
    port: place.port,
    useSSL: place.isTls,
    region: place.region,
    accessKey: place.accessKey,
    secretKey: place.secretKey,
    pathStyle: place.pathStyle,
    retryOptions: { disableRetry: true },
    transport: { request },
  })
}

function lookupBy(network: NetworkPolicy, port: number, signal: AbortSignal): LookupFunction {
  return (host, options, found) => {
    network.resolve(host, port, signal).then(
      ({ address, family }) => {
        if (options.all === true) found(null, [{ address, family }])
        else found(null, address, family)
      },
      (error: NodeJS.ErrnoException) => found(error, ''),
    )
  }
}
