/**
 * Starts one PostgreSQL for a whole test run: prints `{"url": …}` on one line when it is ready, and stops when its
 * standard input ends. The runner passes the URL on as SLUICE_TEST_POSTGRES_URL.
 */
import { formatAddress } from './address.ts'
import { startThrowawayServer } from './testing.ts'

const server = await startThrowawayServer({ keepsProcessAlive: true })

async function stop(): Promise<void> {
  await server.stop()
  process.exit(0)
}

process.stdin.on('end', () => void stop()).resume()
process.on('SIGTERM', () => void stop()).on('SIGINT', () => void stop())
process.stdout.write(
  `${JSON.stringify({ url: formatAddress(server.address), tcpUrl: formatAddress(server.tcpAddress) })}\n`,
)
