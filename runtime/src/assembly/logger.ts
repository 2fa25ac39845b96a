import type { Logger } from '@sluice/sdk'
import { pino } from 'pino'
import type { Config } from '../config.ts'
import { LogOutput, standardError } from './log-output.ts'

/** Keys whose values never reach the log, wherever they stand. */
const REDACTED = ['password', 'token', 'secret', 'authorization', 'config_encrypted', 'sql']

const SECRET = /(slk_[0-9a-f]{24}_|slp_)[0-9a-f]+/g

/** A line as it may be written: keys of applications and service passwords can be told in any text, and are hidden in it. */
export function hideKeys(line: string): string {
  if (!line.includes('slk_') && !line.includes('slp_')) return line
  return line.replaceAll(SECRET, (_, head: string) => `${head.slice(0, 4)}********`)
}

export interface RuntimeLogger extends Logger {
  flush(): void
  /** Writes a line of another process of this runtime, which writes none by itself: so lines stay whole, and in order. */
  relay(line: string): void
  /** Lines that nobody took while the pipe was full, since the start. */
  dropped(): number
}

/**
 * JSON lines on standard error, pretty on a terminal. Whoever reads them slowly, or not at all, is not waited for.
 * @param base stands in every line
 */
export async function createLogger(
  config: Config['log'],
  base: Readonly<Record<string, unknown>> | null = null,
): Promise<RuntimeLogger> {
  const pretty = (config.pretty ?? process.stderr.isTTY) ? await prettyLines() : null
  const options = {
    level: config.level,
    base,
    redact: { paths: REDACTED.flatMap((key) => [key, `*.${key}`]), censor: '********' },
    hooks: { streamWrite: hideKeys },
  }
  const output = new LogOutput(standardError(), (lines) =>
    log.warn({ lines }, 'lines of the log were dropped here: nobody read the pipe that the log is written to'),
  )
  const write = (line: string) => output.write(pretty === null ? line : pretty(line))
  const log = pino(options, { write })
  return {
    debug: (message, fields = {}) => log.debug(fields, message),
    info: (message, fields = {}) => log.info(fields, message),
    warn: (message, fields = {}) => log.warn(fields, message),
    error: (message, fields = {}) => log.error(fields, message),
    flush: () => void output.flush(),
    relay: (line) => write(`${hideKeys(line)}\n`),
    dropped: () => output.dropped,
  }
}

async function prettyLines(): Promise<(line: string) => string> {
  const { prettyFactory } = await import('pino-pretty')
  return prettyFactory({ colorize: true, translateTime: 'HH:MM:ss.l' })
}
