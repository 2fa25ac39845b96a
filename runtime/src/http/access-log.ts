import type { Logger } from '@sluice/sdk'
import type { RequestReport } from './app.ts'

/** A line for each request that has ended: the template of its path, and none of its values. */
export function accessLog(logger: Logger): (report: RequestReport) => void {
  return ({ requestId, method, route, status, durationMs, tenant, subject, bytes }) => {
    const took = Math.round(durationMs * 10) / 10
    logger.info('request', { request_id: requestId, method, route, status, ms: took, bytes, tenant, subject })
  }
}
