select date_trunc('month', day) as month, sum(revenue) as revenue from {{ ref('forecast') }} group by 1
