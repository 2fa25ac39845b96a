import type { Logger } from '@sluice/sdk'
import { type DestinationStream, pino } from 'pino'
import type { Config } from '../config.ts'

/** Keys whose values never reach the log, wherever they stand. */
const REDACTED = ['password', 'token', 'secret', 'authorization', 'config_encrypted', 'sql']

const APPLICATION_KEY = /slk_[0-9a-f]{24}_[0-9a-f]+/g

/** A line as it may be written: keys of applications can be told in any text, and are hidden in it. */
export function hideKeys(line: string): string {
  return line.includes('slk_') ? line.replaceAll(APPLICATION_KEY, 'slk_********') : line
}

/** JSON lines on standard error, pretty on a terminal. */
export async function createLogger(config: Config['log']): Promise<Logger & { flush(): void }> {
  const pretty = config.pretty ?? process.stderr.isTTY
  const options = {
    level: config.level,
    base: null,
    redact: { paths: REDACTED.flatMap((key) => [key, `*.${key}`]), censor: '********' },
    hooks: { streamWrite: hideKeys },
  }
  const log = pretty ? pino(options, await prettyStream()) : pino(options, pino.destination({ dest: 2, sync: true }))
  return {
    debug: (message, fields = {}) => log.debug(fields, message),
    info: (message, fields = {}) => log.info(fields, message),
    warn: (message, fields = {}) => log.warn(fields, message),
    error: (message, fields = {}) => log.error(fields, message),
    flush: () => log.flush(),
  }
}

async function prettyStream(): Promise<DestinationStream> {
  const { default: pretty } = await import('pino-pretty')
  return pretty({ destination: 2, sync: true, colorize: true, translateTime: 'HH:MM:ss.l' })
}
