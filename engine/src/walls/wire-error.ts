/** An error on its way from a child process to its parent. */
import { type ErrorKind, SluiceError } from '@sluice/sdk'

export interface WireError {
  readonly kind: ErrorKind
  readonly code: string
  readonly message: string
  readonly remedy: string | null
  readonly details: Readonly<Record<string, unknown>> | null
  /** What the driver said: for the process's own log, never for a client. */
  readonly driver: string | null
}

export function toWireError(error: SluiceError): WireError {
  return {
    kind: error.kind,
    code: error.code,
    message: error.message,
    remedy: error.remedy ?? null,
    details: error.details ?? null,
    driver: error.cause instanceof Error ? error.cause.message.slice(0, MAX_DRIVER_CHARS) : null,
  }
}

const MAX_DRIVER_CHARS = 2000

export function fromWireError(wire: WireError): SluiceError {
  return new SluiceError(wire.kind, wire.message, {
    code: wire.code,
    ...(wire.remedy === null ? {} : { remedy: wire.remedy }),
    ...(wire.details === null ? {} : { details: wire.details }),
    ...(wire.driver === null ? {} : { cause: new Error(wire.driver) }),
  })
}
