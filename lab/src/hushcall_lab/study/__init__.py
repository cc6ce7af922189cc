"""The experiments: months of rounds without phones, their scores, figures and pages."""
